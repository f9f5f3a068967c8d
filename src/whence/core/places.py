"""Places inside a model: hidden tensors whose relevance is read while the backward pass goes by.

In a gradient recipe the relevance of any tensor h of the forward pass is h ⊙ ∂f/∂h, and so a place costs nothing but a
look at both. What a place is, is seen in what the model computes; no model is named:

| kind         | the tensor                                                                         |
|--------------|------------------------------------------------------------------------------------|
| `layers`     | what a block gives: the residual stream behind it                                  |
| `heads`      | probabilities @ values, of every head by itself                                    |
| `attentions` | the linear layer that reads the heads: what attention adds to the stream           |
| `neurons`    | what an activation (times what it gates) gives, inside of a block                  |
| `mlps`       | the linear layer that reads the neurons: what the MLP adds to the stream           |

Besides, what any module gives, by its name. Entries of the ledger are booked by *stage*, the number of blocks that have
run, so that every layer has a receipt: relevance of the layer + sinks of later stages = target.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from whence.core.backward import on_gradient
from whence.core.batch import Batch
from whence.core.call import Call, Rule, is_tainted, mark_role, role_of, same_marks
from whence.core.holding import Held
from whence.core.interception import Change, Interception
from whence.core.layout import Layout, layout_of
from whence.core.ledger import Ledger, NoLedger, wide_of
from whence.core.memory import blocks_of, planned
from whence.core.numerics import widened
from whence.core.propagation import Forward, Target, account, followed, gathered, there_and_back
from whence.core.recipe import Recipe
from whence.core.rules import products, table

__all__ = ["KINDS", "Crossing", "Place", "PlaceChange", "Watch", "inside", "layers_of"]

KINDS = ("layers", "heads", "attentions", "mlps", "neurons")
PROJECTIONS = {"linear": (0, "input"), "addmm": (1, "mat1")}
PlaceChange = Callable[[str, int, Tensor, int, Layout | None], Tensor]
"""The value that a place shall have: from its kind, its number among those of its kind, its own value, how many heads
it has, and where the examples lie in it."""


@dataclass
class Place:
    """A hidden tensor of one example."""

    kind: str
    """One of `KINDS`, or "module"."""
    name: str
    """Of the block it is in, or of the module that gave it."""
    layer: int | None
    """Which of the blocks that ran it is, or is in; None outside of all."""
    held: Held
    heads: int = 0
    gradient: Tensor | None = None
    """∂ target / ∂ value under the recipe; None where the target does not depend on it."""

    @property
    def value(self) -> Tensor:
        return self.held.value

    @property
    def relevance(self) -> Tensor:
        """value ⊙ gradient, of the shape of both."""
        value = widened(self.value)
        return torch.zeros_like(value) if self.gradient is None else value * widened(self.gradient)

    def parted(self, tensor: Tensor) -> Tensor:
        """The value, or what is of its shape, part by part: (head, …), or (token, …) where there are no heads."""
        return tensor.reshape(self.heads or tensor.shape[:-1].numel(), -1)


@dataclass(frozen=True)
class Crossing:
    """What a pass through a model saw at its places."""

    places: list[Place]
    """In the order in which they were computed."""
    relevance: dict[str, Tensor]
    """Of the sources, as everywhere."""
    target: float
    inputs: float
    sinks: dict[int, dict[str, float]]
    """By stage, then by kind."""
    outputs: Any
    unruled: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    """Names of the blocks that ran, first to last; one that ran twice is there twice."""
    beside: dict[int, float] = field(default_factory=dict)
    """By stage, the relevance of inputs that came in there."""

    def of(self, kind: str, name: str | None = None) -> list[Place]:
        """The places of a kind, or of one module."""
        return [p for p in self.places if p.kind == kind and (name is None or p.name == name)]

    def above(self, layer: int) -> dict[str, float]:
        """By kind, what was absorbed behind a layer; `inputs` that came in behind it included."""
        found: dict[str, float] = defaultdict(float)
        for stage, amounts in self.sinks.items():
            if stage > layer:
                for kind, amount in amounts.items():
                    found[kind] += amount
        later = sum(amount for stage, amount in self.beside.items() if stage > layer)
        return {**found, "inputs": later} if later else dict(found)


def layers_of(module: nn.Module) -> list[nn.Module]:
    """The blocks of a model; the members of lists of one, where a model runs the same block again and again."""
    found = blocks_of(module)
    if found:
        return found
    lists = [m for m in module.modules() if isinstance(m, nn.ModuleList) and len(m)]
    inner = {id(own) for m in lists for child in m for own in child.modules()}
    return [child for m in lists if id(m) not in inner for child in m]


class Watch:
    """The rules and hooks that note places, or overwrite them, while a model runs in this thread."""

    def __init__(
        self,
        module: nn.Module,
        kinds: Sequence[str],
        modules: Sequence[str],
        ledger: NoLedger,
        change: PlaceChange | None = None,
    ):
        self.module, self.kinds, self.modules, self.ledger = module, frozenset(kinds), modules, ledger
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

    # -- blocks and modules ----------------------------------------------------------------------------------

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Hooks that are gone when this ends, on blocks and on the modules that were named."""
        with ExitStack() as stack:
            for block in layers_of(self.module):
                stack.callback(block.register_forward_pre_hook(self._enters).remove)
                stack.callback(block.register_forward_hook(self._leaves).remove)
            known = dict(self.module.named_modules())
            for name in self.modules:
                stack.callback(known[name].register_forward_hook(self._gave(name)).remove)
            yield

    @property
    def _here(self) -> bool:
        return threading.get_ident() == self._thread and not self._over

    def _enters(self, block: nn.Module, args: Any) -> None:
        if self._here:
            self._within.append(self._names[id(block)])

    def _leaves(self, block: nn.Module, args: Any, out: Any) -> Any:
        if not self._here:
            return None
        name = self._within.pop()
        stream = _first(out)
        if stream is None or self._within:
            return None
        self.layers.append(name)
        made = self.note("layers", stream, name, len(self.layers) - 1, layout=layout_of(stream))
        self.ledger.stage = len(self.layers)
        return None if made is stream else _exchanged(out, stream, made)

    def _gave(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, out: Any) -> None:
            stream = _first(out)
            if self._here and stream is not None:
                self.note("module", stream, name, len(self.layers) if self._within else None)

        return hook

    # -- functions -------------------------------------------------------------------------------------------

    def rules(self, base: Mapping[str, Rule]) -> dict[str, Rule]:
        self.base = base
        own: dict[str, Rule] = dict.fromkeys(products.MATRIX, self._matrix)
        own |= {"scaled_dot_product_attention": self._fused, "mul": self._product}
        own |= dict.fromkeys(PROJECTIONS, self._projection)
        return {**base, **own}

    def _fused(self, call: Call) -> Any:
        return self._attended(call, self.base[call.name](call))

    def _matrix(self, call: Call) -> Any:
        """probabilities @ values; or a linear layer, spelled x @ W."""
        probability = products.probability_of(call)
        tensors = call.tensors()
        if probability is not None and len(tensors) == 2 and probability.dim() in (3, 4):
            return self._attended(call, self.base[call.name](call))
        if len(tensors) == 2 and is_tainted(tensors[0]) and not is_tainted(tensors[1]):
            return self._read(call, tensors[0])
        return self.base[call.name](call)

    def _attended(self, call: Call, out: Any) -> Any:
        if is_tainted(out) and out.dim() in (3, 4) and self._within:
            out = self.note("heads", out, heads=out.shape[-3], layout=call.layout(out))
            mark_role(out, "heads")
        return out

    def _product(self, call: Call) -> Any:
        """An activation times what it gates."""
        factors = [t for t in call.tensors() if is_tainted(t)]
        out = self.base["mul"](call)
        if len(factors) == 2 and "gate" in map(role_of, factors):
            mark_role(out, "neurons")
        return out

    def _projection(self, call: Call) -> Any:
        return self._read(call, call.argument(*PROJECTIONS[call.name]))

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
        heads: int = 0,
        layout: Layout | None = None,
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
                made = self.change(kind, number, value, heads, layout)
                return value if made is value else same_marks(made, value)
            place = Place(kind, name, layer, self.ledger.held.hold(value), heads)
            self.places.append(place)

            def seen(grad: Tensor) -> None:
                place.gradient = grad.detach() if place.gradient is None else place.gradient + grad.detach()

            on_gradient(value, seen)
        return value

    def end(self) -> None:
        """The model has run: what runs now is run again, or is the target."""
        self._over = True


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


def inside(
    forward: Forward,
    batch: Batch,
    *,
    module: nn.Module,
    target: Target,
    recipe: Recipe,
    kinds: Sequence[str] = KINDS,
    modules: Sequence[str] = (),
    change: Change | None = None,
) -> Crossing:
    """One pass there and back over a batch of one example, with a look at its places.

    `change` gives the embeddings other values than the model's own, see `core.gradients`.

    >>> import torch
    >>> from whence.core.recipe import recipes
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 1))
    >>> batch = Batch.of({"x": torch.ones(1, 3)}, "x")
    >>> seen = inside(lambda i: net(i["x"]), batch, module=net, target=lambda y: y[:, 0], recipe=recipes["exact"],
    ...               kinds=(), modules=["0"])
    >>> hidden = seen.of("module")[0].relevance.sum()
    >>> bool(torch.isclose(hidden + net[2].bias[0], torch.tensor(seen.target), atol=1e-6))
    True
    """
    ledger = Ledger(batch.examples)
    watch = Watch(module, kinds, modules, ledger)
    mode = Interception(
        batch, watch.rules(table(recipe)), recipe=recipe, ledger=ledger, change=change,
        follows=followed(batch, True, "word"),
    )  # fmt: skip

    def scored(outputs: Any) -> Tensor:
        watch.end()
        return target(outputs)

    with closing(mode), planned("keep"), watch.hooked():  # a block that ran again would be noted twice
        grads, scores, outputs = there_and_back(mode, forward, scored)
        relevance, numbers = gathered(mode, grads, scores)
        inputs, explained, _ = account(numbers.cpu(), batch.examples, ledger, scores.dtype)
        beside: dict[int, float] = defaultdict(float)
        for leaf, grad in zip(mode.leaves, grads, strict=True):
            if grad is not None:
                own = widened(leaf.tensor.detach()) * widened(grad)
                beside[leaf.stage] += float(own.sum(dtype=wide_of(own.device)))
    sinks: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry, amount in ledger.amounts.items():
        sinks[entry.stage][ledger.kind_of(entry)] += float(amount.sum())
    return Crossing(
        places=watch.places,
        relevance=relevance,
        target=float(explained[0]),
        inputs=float(inputs[0]),
        sinks={stage: dict(kinds) for stage, kinds in sinks.items()},
        outputs=outputs,
        unruled=tuple(sorted(mode.unruled)),
        layers=tuple(watch.layers),
        beside=dict(beside),
    )
