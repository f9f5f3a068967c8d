"""Attention replaced as it happens: other maps in place of the computed ones, in fused and eager attention alike.

A softmax whose result multiplies values is attention. `replaced` puts maps of the caller's own there, for one layer or
one head, as tensors or as functions of the computed map. The model is not changed, nothing is asked of it, and what
comes out is differentiable with respect to the maps that went in. Parameters are detached where they are used.

>>> import torch
>>> q = torch.randn(1, 2, 3, 4)
>>> uniform = lambda observed, allowed: allowed / allowed.sum(-1, keepdim=True)
>>> with replaced({0: uniform}, examples=1):
...     out = torch.nn.functional.scaled_dot_product_attention(q, q, q)
>>> torch.allclose(out, q.mean(2, keepdim=True).expand_as(q), atol=1e-6)
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from whence.core.call import Call, mark_role, role_of, tensors_in
from whence.core.interception import PASSED
from whence.core.naming import name_of
from whence.core.rules import products, softmax
from whence.errors import InputError

__all__ = ["Change", "Changes", "Replacement", "observed", "replaced"]

Change = Tensor | Callable[[Tensor, Tensor], Tensor]
"""A map, or a function from the computed map and where the mask allows attention (bool) to a map.

(batch, head, query, key) for a layer, (batch, query, key) for a head."""
Changes = Mapping[int | tuple[int, int], Change]
"""Layer, or (layer, head), to what stands there instead. Layers are counted in the order they are computed."""

MATRIX = frozenset(products.MATRIX)
# What may happen to a map between its softmax and its product with the values.
CARRIED = frozenset(
    "to type type_as float double half bfloat16 contiguous clone dropout view reshape view_as reshape_as squeeze "
    "unsqueeze flatten unflatten expand getitem nan_to_num masked_fill where mul div".split()
)


class Replacement(TorchFunctionMode):
    """Puts `changes` in place of computed attention maps; with `keep`, also remembers the computed ones.

    A cell that the model's own map leaves at exactly zero is one its mask forbids (padding, the future), and stays
    zero whatever the change says there.
    """

    def __init__(self, examples: int, changes: Changes | None = None, *, keep: bool = False):
        super().__init__()
        self.examples = examples
        self.keep = keep
        self.maps: list[Tensor] = []
        """With `keep`: every computed map (batch, head, query, key), first layer first."""
        self.outputs: Any = None
        """With `observed`: what the model returned."""
        self.layers = 0
        """How many attention layers the forward pass had."""
        self.in_parts = 0
        """How many attentions were over windows or chunks of the sequence: these are left as they are."""
        self._changes: dict[int, dict[int | None, Change]] = {}
        for place, change in (changes or {}).items():
            layer, head = place if isinstance(place, tuple) else (place, None)
            self._changes.setdefault(layer, {})[head] = change

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func).name
        if name in PASSED or name == "get":
            return func(*args, **kwargs)
        call = Call(func, name, args, kwargs, self)  # type: ignore[arg-type]
        if any(isinstance(t, nn.Parameter) for t in tensors_in(args, kwargs)):
            call = call.mapped(_constant)
        if name == "scaled_dot_product_attention":
            return self._fused(call)
        if name == "multi_head_attention_forward":
            return softmax.multi_head_attention(call)
        if name in MATRIX:
            return self._product(call)
        out = call.run()
        if name == "softmax":
            mark_role(out, "probability")
        elif name in CARRIED and isinstance(out, Tensor):
            carried = next((role_of(t) for t in call.tensors() if role_of(t) is not None), None)
            mark_role(out, carried)
        return out

    def _without_rule(self, call: Call) -> Any:
        """What `multi_head_attention` falls back to where it can't spell a call out."""
        self.in_parts += 1
        return call.run()

    # -- the two spellings of attention ----------------------------------------------------------------------

    def _product(self, call: Call) -> Any:
        """probabilities @ values, in any spelling."""
        found = next((t for t in call.tensors() if role_of(t) == "probability"), None)
        if found is None or len(call.tensors()) != 2:
            return call.run()
        heads = _as_heads(found, self.examples)
        if heads is None:
            self.in_parts += found.dim() > 3
            return call.run()
        new = self._next(heads)
        if new is heads:
            return call.run()
        new = new.to(found.dtype).reshape(found.shape)
        return call.mapped(lambda t: new if t is found else t).run()

    def _fused(self, call: Call) -> Any:
        """softmax(q kᵀ · scale + mask) v: spelled out only where its map is wanted."""
        a = softmax.bound_arguments(call)
        q, k, v = a["query"], a["key"], a["value"]
        if q.dim() != 4 or q.shape[0] != self.examples:
            self.in_parts += 1
            return call.run()
        if not self.keep and self.layers not in self._changes:
            self.layers += 1
            return call.run()
        scores, v = softmax.attention_scores(q, k, v, **softmax.mask_arguments(a))
        # A query that may look nowhere gets nothing, as in fused attention.
        return self._next(torch.softmax(scores, -1).nan_to_num()).to(v.dtype) @ v

    # -- changing --------------------------------------------------------------------------------------------

    def _next(self, heads: Tensor) -> Tensor:
        """The map to use in the layer that is being computed."""
        number = self.layers
        self.layers += 1
        if self.keep:
            self.maps.append(heads.detach())
        changes = self._changes.get(number)
        if changes is None:
            return heads
        seen, allowed = heads.detach(), heads.detach() > 0
        if None in changes:
            heads = _fitted(changes[None], seen, allowed, f"layer {number}")
        chosen = {h: c for h, c in changes.items() if h is not None}
        if not chosen:
            return heads
        rows = list(heads.unbind(1))
        for head, change in chosen.items():
            if not 0 <= head < len(rows):
                raise InputError(f"layer {number} has heads 0 to {len(rows) - 1}; there is no head {head}")
            rows[head] = _fitted(change, seen[:, head], allowed[:, head], f"layer {number}, head {head}")
        return torch.stack(rows, 1)

    def check(self) -> None:
        """Say so when a change was meant for a layer that the model does not have."""
        missing = sorted(n for n in self._changes if not 0 <= n < self.layers)
        if missing:
            have = f"attention layers 0 to {self.layers - 1}" if self.layers else "no attention over all its tokens"
            raise InputError(f"can't replace attention in layer {missing[0]}: the model has {have}")


def _constant(t: Tensor) -> Tensor:
    return t.detach() if isinstance(t, nn.Parameter) else t


def _fitted(change: Change, seen: Tensor, allowed: Tensor, where: str) -> Tensor:
    new = change if isinstance(change, Tensor) else change(seen, allowed)
    try:
        new = new.expand(seen.shape)
    except RuntimeError:
        raise InputError(
            f"{where} has maps of shape {tuple(seen.shape)}; the replacement has {tuple(new.shape)}"
        ) from None
    return torch.where(allowed, new, torch.zeros((), dtype=new.dtype, device=new.device))


def _as_heads(p: Tensor, examples: int) -> Tensor | None:
    """(batch, head, query, key), or None where the map is over windows or chunks of the sequence."""
    if p.dim() == 4 and p.shape[0] == examples:
        return p
    if p.dim() == 3 and p.shape[0] % examples == 0:
        return p.reshape(examples, -1, *p.shape[1:])
    return None


@contextmanager
def replaced(changes: Changes, *, examples: int, keep: bool = False) -> Iterator[Replacement]:
    """In this block, in this thread: attention as `changes` says. `examples` is the batch size."""
    mode = Replacement(examples, changes, keep=keep)
    with mode:
        yield mode
    mode.check()


def observed(forward: Callable[[dict[str, Any]], Any], inputs: dict[str, Any], *, examples: int) -> Replacement:
    """Run the model without gradients and keep its maps: `observed(…).maps`. Its outputs are in `.outputs`."""
    mode = Replacement(examples, keep=True)
    with torch.no_grad(), mode:
        mode.outputs = forward(inputs)
    return mode
