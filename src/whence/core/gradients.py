"""Plain gradients at the leaves, where the leaves may be given other values: a path, or noise.

A leaf is a looked-up embedding or a float input. The model runs as it is, with no rule of any kind; ids, masks and
positions stay those of the input, so whatever a model reads from its ids (where the text ends, say) does not move.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from whence.core.batch import Batch
from whence.core.interception import Change, Interception, Leaf, as_it_is
from whence.core.numerics import widened
from whence.core.propagation import Forward, at_source, intercepted, there_and_back
from whence.errors import NumericsError

__all__ = ["Gradients", "by_place", "gradients", "leaves_of", "rows_of"]


@dataclass(frozen=True)
class Gradients:
    """∂f/∂x at every leaf, for a batch."""

    leaves: list[Leaf]
    grads: tuple[Tensor | None, ...]
    target: Tensor
    """The score, one per example."""
    outputs: Any
    batch: Batch

    def collected(self, combine: Callable[[int, Tensor, Tensor], Tensor]) -> dict[str, Tensor]:
        """`combine(number, value, gradient)` of every leaf, elementwise, brought back to the sources.

        For ids the result is summed over channels, (batch, token); for float inputs it has the input's shape.
        """
        found: dict[str, Tensor] = {}
        with torch.no_grad():
            for number, (leaf, grad) in enumerate(zip(self.leaves, self.grads, strict=True)):
                value = widened(leaf.tensor.detach())
                scores = None if grad is None else combine(number, value, widened(grad))
                part = at_source(leaf, scores, self.batch)
                found[leaf.source] = found[leaf.source] + part if leaf.source in found else part
        return found


def gradients(
    forward: Forward, batch: Batch, *, target: Callable[[Any], Tensor], change: Change | None = None
) -> Gradients:
    """∂ target(forward(inputs)) / ∂ leaves, at the leaves' own values or at those that `change` gives them.

    >>> import torch
    >>> batch = Batch.of({"x": torch.tensor([[1.0, 2.0]])}, "x")
    >>> half = lambda leaf, number: leaf.tensor / 2
    >>> done = gradients(lambda i: i["x"] ** 2, batch, target=lambda y: y.sum(1), change=half)
    >>> done.grads[0]
    tensor([[1., 2.]])
    """
    mode = Interception(batch, {}, default=as_it_is, change=change)
    with closing(mode):
        grads, scores, outputs = there_and_back(mode, forward, target)
        leaves = mode.leaves
    if not all(torch.isfinite(g).all() for g in (scores, *grads) if g is not None):
        raise NumericsError(
            "the gradient is not finite. Check the model's weights for NaN (whence.audit shows where it begins); "
            "in float16, load the model with dtype='bfloat16' or dtype='float32'"
        )
    return Gradients(leaves, grads, scores.detach(), outputs, batch)


def leaves_of(forward: Forward, batch: Batch) -> list[Tensor]:
    """The values of the leaves: what the model looks up for these inputs."""
    mode = Interception(batch, {}, default=as_it_is)
    with intercepted(mode):
        forward(mode.prepared())
    return [leaf.tensor.detach() for leaf in mode.leaves]


def rows_of(leaf: Leaf, by_place: Tensor) -> Tensor:
    """Values given per place of the source, (batch, token, …), in the order in which the leaf holds its vectors.

    Vectors that were looked up for no place of the source get zeros.
    """
    if leaf.positions is None:
        return by_place
    flat = by_place.flatten(0, 1)
    rows = flat[leaf.positions.clamp_min(0)]
    known = leaf.positions >= 0
    return rows * known.reshape(*known.shape, *(1,) * (rows.dim() - known.dim()))


def by_place(leaf: Leaf, values: Tensor, source: Tensor) -> Tensor:
    """Values in the order of the leaf, put at the places of the source, (batch, token, …): the inverse of `rows_of`."""
    if leaf.positions is None:
        return values
    known = leaf.positions >= 0
    placed = values.new_zeros(source.numel(), values.shape[-1])
    placed[leaf.positions[known]] = values[known]
    return placed.view(*source.shape, values.shape[-1])
