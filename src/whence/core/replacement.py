"""Attention replaced as it happens: other maps in place of the computed ones, in fused and eager attention alike.

A softmax whose result multiplies values is attention. `replaced` puts maps of the caller's own there, for one layer or
one head, as tensors or as functions of the computed map. The model is not changed, nothing is asked of it, and what
comes out is differentiable with respect to the maps that went in. Parameters are detached where they are used.

>>> import torch
>>> q = torch.randn(1, 2, 3, 4)
>>> uniform = lambda observed, allowed: allowed / allowed.sum(-1, keepdim=True)
>>> with replaced(Batch.of({"q": q}, "q"), {0: uniform}) as inputs:
...     out = torch.nn.functional.scaled_dot_product_attention(inputs["q"], inputs["q"], inputs["q"])
>>> torch.allclose(out, q.mean(2, keepdim=True).expand_as(q), atol=1e-6)
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from whence.core.batch import Batch
from whence.core.call import Call, Rule, mark_role, role_of
from whence.core.capture import as_heads
from whence.core.interception import Interception, as_it_is
from whence.core.layout import Lane, Layout, layout_of, mark_layout
from whence.core.numerics import widened
from whence.core.propagation import Forward
from whence.core.rules import products, softmax
from whence.errors import InputError

__all__ = ["MapChange", "MapChanges", "Seen", "observed", "replaced"]

MapChange = Tensor | Callable[[Tensor, Tensor], Tensor]
"""A map, or a function from the computed map and where the mask allows attention (bool) to a map.

(batch, head, query, key) for a layer, (batch, query, key) for a head."""
MapChanges = Mapping[int | tuple[int, int], MapChange]
"""Layer, or (layer, head), to what stands there instead. Layers are counted in the order they are computed."""

# What may happen to a map between its softmax and its product with the values.
CARRIED = frozenset(
    "to type type_as float double half bfloat16 contiguous clone dropout view reshape view_as reshape_as squeeze "
    "unsqueeze flatten unflatten expand getitem nan_to_num masked_fill where mul div".split()
)


class Seen:
    """What a forward pass under replacement saw."""

    def __init__(self) -> None:
        self.maps: list[Tensor] = []
        """Every computed map (batch, head, query, key), first layer first, where they are kept."""
        self.outputs: Any = None
        self.layers = 0
        """How many attention layers the forward pass had."""
        self.in_parts = 0
        """How many attentions were over windows or chunks of the sequence: these are left as they are."""


class _Replacer:
    """The rules that replace. A cell that the model's own map leaves at exactly zero is one its mask forbids (padding,
    the future), and stays zero whatever the change says there."""

    def __init__(self, batch: Batch, changes: MapChanges, *, keep: bool):
        self.examples, self.keep, self.seen = batch.examples, keep, Seen()
        self._changes: dict[int, dict[int | None, MapChange]] = {}
        for place, change in changes.items():
            layer, head = place if isinstance(place, tuple) else (place, None)
            self._changes.setdefault(layer, {})[head] = change

    def rules(self) -> dict[str, Rule]:
        return {
            **dict.fromkeys(CARRIED, self.carried),
            **dict.fromkeys(products.MATRIX, self.product),
            "softmax": self.probabilities,
            "scaled_dot_product_attention": self.fused,
            "multi_head_attention_forward": softmax.multi_head_attention,
        }

    # -- the spellings of attention --------------------------------------------------------------------------

    def probabilities(self, call: Call) -> Any:
        out = call.run()
        mark_role(out, "probability")
        return out

    def carried(self, call: Call) -> Any:
        out = call.run()
        if isinstance(out, Tensor):
            mark_role(out, next((r for t in call.tensors() if (r := role_of(t)) is not None), None))
        return out

    def product(self, call: Call) -> Any:
        """probabilities @ values, in any spelling."""
        found = products.probability_of(call)
        if found is None or len(call.tensors()) != 2:
            return call.run()
        layout = layout_of(found)
        heads = as_heads(found, self.examples, layout)
        if heads is None:
            self.seen.in_parts += found.dim() > 3
            return call.run()
        new = self._next(heads)
        if new is heads:
            return call.run()
        fitted = _as_it_was(new.to(found.dtype), found, layout)
        return call.mapped(lambda t: fitted if t is found else t).run()

    def fused(self, call: Call) -> Any:
        """softmax(q kᵀ · scale + mask) v: spelled out only where its map is wanted."""
        a = softmax.bound_arguments(call)
        q, k, v = a["query"], a["key"], a["value"]
        layout = next((found for t in (q, k, v) if (found := layout_of(t)) is not None), None)
        axis = layout[0] if layout else None
        if q.dim() != 4 or q.shape[0] != self.examples or (self.examples > 1 and (axis is None or axis.axis)):
            self.seen.in_parts += 1
            return call.run()
        if not self.keep and self.seen.layers not in self._changes:
            self.seen.layers += 1
            return call.run()
        scores = softmax.attention_scores(q, k, **softmax.mask_arguments(a))
        v = softmax.repeated(v, q, a["enable_gqa"])
        # A query that may look nowhere gets nothing, as in fused attention.
        # In float32: what half precision would round to zero is not masked.
        return self._next(torch.softmax(widened(scores), -1).nan_to_num()).to(v.dtype) @ v

    # -- changing --------------------------------------------------------------------------------------------

    def _next(self, heads: Tensor) -> Tensor:
        """The map to use in the layer that is being computed."""
        number = self.seen.layers
        self.seen.layers += 1
        if self.keep:
            self.seen.maps.append(heads.detach())
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
        missing = sorted(n for n in self._changes if not 0 <= n < self.seen.layers)
        if missing:
            last = self.seen.layers - 1
            have = f"attention layers 0 to {last}" if self.seen.layers else "no attention over all its tokens"
            raise InputError(f"can't replace attention in layer {missing[0]}: the model has {have}")


def _as_it_was(heads: Tensor, found: Tensor, layout: Layout | None) -> Tensor:
    """(batch, head, query, key) in the shape that the model gave its map: the inverse of `as_heads`."""
    axis = layout[0] if layout else None
    if axis is None:
        return heads.reshape(found.shape)
    rest = [size for d, size in enumerate(found.shape) if d != axis.axis]
    outer = found.shape[axis.axis] // (axis.size * axis.inner)
    apart = heads.reshape(axis.size, *rest[: axis.axis], outer, axis.inner, *rest[axis.axis :])
    return apart.movedim(0, axis.axis + 1).reshape(found.shape)


def _fitted(change: MapChange, seen: Tensor, allowed: Tensor, where: str) -> Tensor:
    new: Any = change if isinstance(change, Tensor) else change(seen, allowed)
    if not isinstance(new, Tensor):
        raise InputError(
            f"the function for {where} gave {type(new).__name__}, not a tensor: return a map of shape "
            f"{tuple(seen.shape)}, such as torch.full_like(observed, 0.5)"
        )
    try:
        fitted = new.expand(seen.shape)
    except RuntimeError:
        raise InputError(
            f"{where} has maps of shape {tuple(seen.shape)}; the replacement has {tuple(new.shape)}"
        ) from None
    return torch.where(allowed, fitted, torch.zeros((), dtype=new.dtype, device=new.device))


def _mode(batch: Batch, replacer: _Replacer) -> tuple[Interception, dict[str, Any]]:
    """A mode in which rules apply to everything, and inputs that say where the examples lie."""
    mode = Interception(batch, replacer.rules(), default=as_it_is, everywhere=True, follows=("examples",))
    inputs = dict(batch.inputs)
    for name in batch.names:
        inputs[name] = inputs[name].view_as(inputs[name])
        if batch.examples > 1:
            mark_layout(inputs[name], (Lane(0, 1, batch.examples),))
    return mode, inputs


@contextmanager
def replaced(batch: Batch, changes: MapChanges) -> Iterator[dict[str, Any]]:
    """In this block, in this thread: attention as `changes` says. Run the model on the inputs that it gives."""
    replacer = _Replacer(batch, changes, keep=False)
    mode, inputs = _mode(batch, replacer)
    with mode:
        yield inputs
    replacer.check()


def observed(forward: Forward, batch: Batch) -> Seen:
    """Run the model without gradients and keep its maps: `observed(…).maps`. Its outputs are in `.outputs`."""
    replacer = _Replacer(batch, {}, keep=True)
    mode, inputs = _mode(batch, replacer)
    with torch.no_grad(), mode:
        replacer.seen.outputs = forward(inputs)
    return replacer.seen
