"""The rules and hooks that see the places of a model while it runs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from whence.core import experts
from whence.core.backward import on_gradient
from whence.core.call import Call, Rule, is_tainted, mark_role, role_of, same_marks
from whence.core.layout import Layout, layout_of
from whence.core.ledger import NoLedger
from whence.core.memory import blocks_of
from whence.core.numerics import wide_of, widened
from whence.core.places import Mixing, PassedBy, Place, PlaceChange
from whence.core.rules import products, softmax

__all__ = ["PlaceWatch", "layers_of"]

PROJECTIONS = {"linear": (0, "input"), "addmm": (1, "mat1")}


def layers_of(module: nn.Module) -> list[nn.Module]:
    """The blocks of a model; the members of lists of one, where a model runs the same block again and again."""
    found = blocks_of(module)
    while any(isinstance(block, nn.ModuleList) for block in found):  # lists of lists: a list is never called
        found = [one for b in found for one in (b.children() if isinstance(b, nn.ModuleList) else (b,))]
    if found:
        return found
    lists = [m for m in module.modules() if isinstance(m, nn.ModuleList) and len(m)]
    inner = {id(own) for m in lists for child in m for own in child.modules()}
    return [child for m in lists if id(m) not in inner for child in m]


class PlaceWatch:
    """The rules and hooks that note places, or overwrite them, while a model runs in this thread."""

    def __init__(
        self,
        module: nn.Module,
        kinds: Sequence[str],
        modules: Sequence[str],
        ledger: NoLedger,
        *,
        change: PlaceChange | None = None,
        maps: bool = False,
    ):
        self.module, self.kinds, self.modules, self.ledger = module, frozenset(kinds), modules, ledger
        self.maps = maps
        self.change = change
        """Gives places another value than the model's own; nothing is held then."""
        self.places: list[Place] = []
        self.seen: Counter[str] = Counter()
        """How many places of each kind there were."""
        self.layers: list[str] = []
        self._names = {id(m): name for name, m in module.named_modules()}
        self._thread = threading.get_ident()
        self._within: list[str] = []
        """Blocks that are running, the outermost first."""
        self._over = False
        self.passing: list[PassedBy] = []
        self._made: dict[int, tuple[Tensor, int]] = {}
        """Tensors by identity, and the first layer that each passes by."""

    # -- blocks and modules ----------------------------------------------------------------------------------

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Hooks that are gone when this ends, on blocks and on the modules that were named."""
        with ExitStack() as stack:
            known = dict(self.module.named_modules())
            for name in self.modules:  # before blocks: one that is named is not yet left then
                stack.callback(known[name].register_forward_hook(self._gave(name)).remove)
            for block in layers_of(self.module):
                stack.callback(block.register_forward_pre_hook(self._enters, with_kwargs=True).remove)
                stack.callback(block.register_forward_hook(self._leaves).remove)
            if "experts" in self.kinds:
                for expert, number, count in experts.listed(self.module):
                    stack.callback(expert.register_forward_hook(self._expert(number, count)).remove)
            yield

    @property
    def _here(self) -> bool:
        return threading.get_ident() == self._thread and not self._over

    def _enters(self, block: nn.Module, args: Any, kwargs: Any) -> Any:
        if not self._here:
            return None
        name = self._names[id(block)]
        self._within.append(name)
        given = [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor) and is_tainted(one)]
        if len(self._within) > 1 or not given:
            return None
        if not self.layers:
            self.note("input", given[0], name, -1)
        others = {id(one) for one in given if one is not given[0]}
        if not others:
            return None

        def seen(one: Any) -> Any:
            return self._passes(one) if id(one) in others else one

        return tuple(map(seen, args)), {name: seen(one) for name, one in kwargs.items()}

    def _passes(self, x: Tensor) -> Tensor:
        """A view of what a block is handed beside its stream: its gradient is that of this block alone."""
        made = PassedBy(self._made.setdefault(id(x), (x, len(self.layers)))[1], len(self.layers))
        self.passing.append(made)
        with torch._C.DisableTorchFunction():
            alone = same_marks(x.view_as(x), x)
            held = self.ledger.held.hold(alone)

            def seen(grad: Tensor) -> None:
                own = widened(held.value) * widened(grad.detach())
                made.amount += float(own.sum(dtype=wide_of(own.device)))

            on_gradient(alone, seen, of_view=True)
        return alone

    def _leaves(self, block: nn.Module, args: Any, out: Any) -> Any:
        if not self._here:
            return None
        name = self._within.pop()
        stream = _first(out)
        if stream is None or self._within:
            return None
        self.layers.append(name)
        for one in out if isinstance(out, tuple | list) else (out,):
            if isinstance(one, Tensor) and is_tainted(one):
                self._made.setdefault(id(one), (one, len(self.layers) - (one is not stream)))
        made = self.note("layers", stream, name, len(self.layers) - 1, layout=layout_of(stream))
        self.ledger.stage = len(self.layers)
        return None if made is stream else _exchanged(out, stream, made)

    def _gave(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, out: Any) -> None:
            stream = _first(out)
            if self._here and stream is not None:
                self.note("module", stream, name, len(self.layers) if self._within else None)

        return hook

    def _expert(self, number: int, count: int) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, out: Any) -> None:
            stream = _first(out)
            if self._here and self._within and stream is not None:
                rows = torch.full((stream.shape[:-1].numel(),), number, device=stream.device)
                self.note("experts", stream, owners=rows, experts=count)

        return hook

    # -- functions -------------------------------------------------------------------------------------------

    def rules(self, base: Mapping[str, Rule]) -> dict[str, Rule]:
        self.base = base
        own: dict[str, Rule] = dict.fromkeys(products.MATRIX, self._matrix)
        own |= {"scaled_dot_product_attention": self._fused, "mul": self._product}
        own |= dict.fromkeys(PROJECTIONS, self._projection)
        own |= dict.fromkeys(products.GROUPED, self._grouped)
        return {**base, **own}

    def _fused(self, call: Call) -> Any:
        return self._attended(call, self.base[call.name](call), -3, self._spelled_out(call) if self.maps else None)

    def _matrix(self, call: Call) -> Any:
        """probabilities @ values; or a linear layer, spelled x @ W."""
        probability = products.probability_of(call)
        tensors = call.tensors()
        if probability is not None and len(tensors) == 2 and probability.dim() in (3, 4):
            mixing = self._as_written(call) if self.maps else None
            return self._attended(call, self.base[call.name](call), _axis_of_heads(call, probability), mixing)
        if len(tensors) == 2 and is_tainted(tensors[0]) and not is_tainted(tensors[1]) and tensors[1].dim() == 2:
            return self._read(call, tensors[0])
        return self.base[call.name](call)

    def _attended(self, call: Call, out: Any, axis: int, mixing: Mixing | None) -> Any:
        if is_tainted(out) and out.dim() in (3, 4) and self._within:
            whole = out.dim() == 3 or out.shape[0] == 1  # else windows, or chunks
            known = mixing if whole and axis % out.dim() == out.dim() - 3 else None
            out = self.note("heads", out, layout=call.layout(out), axis=axis, mixing=known)
            mark_role(out, "heads")
        return out

    def _spelled_out(self, call: Call) -> Mixing:
        a = softmax.bound_arguments(call)
        q, k, v = (self.ledger.held.hold(a[name]) for name in ("query", "key", "value"))
        rest = softmax.mask_arguments(a)

        def mixing() -> tuple[Tensor, Tensor]:
            scores = softmax.attention_scores(q.value, k.value, **rest)
            values = softmax.repeated(v.value, q.value, rest["enable_gqa"])
            return _heads_first(torch.softmax(widened(scores), -1).nan_to_num()), _heads_first(widened(values))

        return mixing

    def _as_written(self, call: Call) -> Mixing | None:
        first, second = call.tensors()
        if role_of(first) != "probability" or first.shape[-1] != second.shape[-2] or first.dim() != second.dim():
            return None
        p, v = self.ledger.held.hold(first), self.ledger.held.hold(second)
        return lambda: (_heads_first(widened(p.value)), _heads_first(widened(v.value)))

    def _product(self, call: Call) -> Any:
        """An activation times what it gates."""
        factors = [t for t in call.tensors() if is_tainted(t)]
        out = self.base["mul"](call)
        if len(factors) == 2 and "gate" in map(role_of, factors):
            mark_role(out, "neurons")
        return out

    def _projection(self, call: Call) -> Any:
        x = call.argument(*PROJECTIONS[call.name])
        of = experts.of_weight(call.argument(1, "weight")) if call.name == "linear" else None
        if of is None or not (is_tainted(x) and self._within and role_of(x) in ("gate", "neurons")):
            return self._read(call, x)
        out = self.base[call.name](call)  # one expert of many, whose weights lie in one tensor
        rows = torch.full((out.shape[:-1].numel(),), of[0], device=out.device)
        self.note("experts", out, owners=rows, experts=of[1])
        return out

    def _grouped(self, call: Call) -> Any:
        """Rows of all experts, one expert's after the other's."""
        x, ends = call.argument(0, "input"), call.argument(2, "offs")
        out = self.base[call.name](call)
        if is_tainted(x) and self._within and role_of(x) in ("gate", "neurons"):
            self.note("experts", out, owners=experts.of_rows(ends, len(x)), experts=len(ends))
        return out

    def _read(self, call: Call, x: Tensor) -> Any:
        role = role_of(x) if is_tainted(x) and self._within else None
        out = self.base[call.name](call)
        if role == "heads":
            return self.note("attentions", out, layout=call.layout(out))
        if role in ("gate", "neurons"):
            self.note("neurons", x)
            return self.note("mlps", out, layout=call.layout(out))
        return out

    # -- noting ----------------------------------------------------------------------------------------------

    def note(
        self,
        kind: str,
        value: Tensor,
        name: str = "",
        layer: int | None = None,
        *,
        layout: Layout | None = None,
        **facts: Any,
    ) -> Tensor:
        """Hold a tensor, and its gradient when that comes; or give it another value."""
        if (kind not in self.kinds and kind != "module") or not is_tainted(value):
            return value
        if not name:
            name, layer = self._within[0], len(self.layers)
        with torch._C.DisableTorchFunction():
            number = self.seen[kind]
            self.seen[kind] += 1
            if self.change is not None:
                made = self.change(kind, number, value, layout)
                return value if made is value else same_marks(made, value)
            place = Place(kind, name, layer, self.ledger.held.hold(value), **facts)
            self.places.append(place)

            def seen(grad: Tensor) -> None:
                place.gradient = grad.detach() if place.gradient is None else place.gradient + grad.detach()

            on_gradient(value, seen)
        return value

    def end(self) -> None:
        """The model has run: what runs now is run again, or is the target."""
        self._over = True


def _axis_of_heads(call: Call, probability: Tensor) -> int:
    """Of probabilities @ values. In einsum it has a letter: the last that both have and that is not summed over."""
    if call.name != "einsum" or not isinstance(call.args[0], str) or "->" not in call.args[0]:
        return -3
    terms, _, out = call.args[0].replace(" ", "").partition("->")
    first, second = terms.split(",")
    given = first if call.tensors()[0] is probability else second
    shared = [letter for letter in given if letter in first and letter in second and letter in out]
    return out.index(shared[-1]) - len(out) if shared else -3


def _heads_first(x: Tensor) -> Tensor:
    return x.detach().reshape(-1, *x.shape[-2:])


def _first(out: Any) -> Tensor | None:
    """The stream among what a block gives."""
    parts: Iterable[Any] = (
        out.values() if isinstance(out, Mapping) else out if isinstance(out, tuple | list) else (out,)
    )
    return next((one for one in parts if isinstance(one, Tensor) and is_tainted(one)), None)


def _exchanged(out: Any, old: Tensor, new: Tensor) -> Any:
    """What a block gives, with another stream."""
    if isinstance(out, Tensor):
        return new
    if isinstance(out, Mapping):
        return type(out)({key: new if value is old else value for key, value in out.items()})  # type: ignore[call-arg]
    made = [new if one is old else one for one in out]
    return type(out)(*made) if hasattr(out, "_fields") else type(out)(made)
