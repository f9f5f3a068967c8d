"""Places overwritten while a model runs: true activation patching, and patching of what one place sends to another.

The places are those of `core.places`. In each row of a batch, parts of them (heads, or tokens) get the values that they
had in another run; what comes behind them is computed from these. A batch holds copies of one example, each with its
own parts overwritten, so that many patches are tried in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from whence.core.batch import Batch
from whence.core.interception import Interception
from whence.core.layout import CannotSplit, Layout
from whence.core.memory import planned
from whence.core.place_watch import PlaceWatch
from whence.core.propagation import Forward, Target, intercepted, run
from whence.core.recipe import recipes
from whence.core.rules import table

__all__ = ["Frozen", "Overwrite", "Writing", "by_row", "overwritten"]

Writing = Callable[[int, Tensor, int, Layout | None], Tensor]
"""The value of a place: from its number among those of its kind, its own value, the number of rows, where they lie."""


@dataclass(frozen=True)
class Overwrite:
    """Other values for the places of a kind, and in which rows which parts get them."""

    values: Sequence[Tensor]
    """Of every place, in the order in which they are computed: (part, …), see `Place.parted`; or (row, part, …)."""
    where: Tensor
    """(row, place, part), bool. Places with fewer parts than others have False behind their own."""

    def __call__(self, number: int, value: Tensor, rows: int, layout: Layout | None) -> Tensor:
        if number >= len(self.values):
            raise CannotSplit
        other = self.values[number]
        chosen = self.where[:, number, : other.shape[-2]].to(value.device)
        if not bool(chosen.any()):
            return value
        own, other = by_row(value, rows, other, layout), other.to(value)
        return torch.where(chosen[..., None], other, own).reshape(value.shape)


@dataclass(frozen=True)
class Frozen:
    """Every place of a kind has a given value, whatever comes to it, and what would have come is noted."""

    values: Sequence[Tensor]
    """Of every place, (part, …) or (row, part, …)."""
    came: dict[int, Tensor] = field(default_factory=dict)
    """By place, (row, part, …): what the model computed there."""

    def __call__(self, number: int, value: Tensor, rows: int, layout: Layout | None) -> Tensor:
        if number >= len(self.values):
            raise CannotSplit
        own = by_row(value, rows, self.values[number], layout)
        self.came[number] = own.detach()
        every = torch.ones((), dtype=torch.bool, device=value.device)
        # Not the value itself, which carries no relevance: places behind it would not be seen.
        return torch.where(every, self.values[number].to(value), own).reshape(value.shape)


def by_row(value: Tensor, rows: int, like: Tensor, layout: Layout | None) -> Tensor:
    """(row, part, …), with parts as those of `like`; where each example lies in one piece, one behind the other."""
    lane = layout[0] if layout else None
    in_pieces = rows == 1 or (lane is not None and lane.axis == 0 and value.shape[0] == lane.size * lane.inner)
    if value.numel() != rows * like.shape[-2:].numel() or not in_pieces:
        raise CannotSplit
    return value.reshape(rows, *like.shape[-2:])


def overwritten(
    forward: Forward, batch: Batch, *, module: nn.Module, target: Target, by: Mapping[str, Writing]
) -> Tensor:
    """The target of each row of a batch with places overwritten, by kind. On the CPU.

    `CannotSplit` where the rows can't be told apart at a place: pass one row at a time then.
    """
    rows = batch.examples

    def change(kind: str, number: int, value: Tensor, layout: Layout | None) -> Tensor:
        return by[kind](number, value, rows, layout)

    recipe = recipes["gi"]
    mode = Interception(batch, {}, recipe=recipe, follows=("examples",) if rows > 1 else ())
    watch = PlaceWatch(module, tuple(by), (), mode.ledger, change=change)
    mode.rules = watch.rules(table(recipe))

    def scored(outputs: Any) -> Tensor:
        watch.end()
        return target(outputs)

    with closing(mode), planned("keep"), watch.hooked(), intercepted(mode):
        scores, _ = run(mode, forward, scored)
    return scores.detach().cpu()
