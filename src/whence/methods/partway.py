"""Patching estimated along the path from one input to the other, for each place as far as it goes itself.

Between the inputs x and x′ the whole stream moves, by D; patching one place moves it by Δ = b − a and leaves the rest
as it is. Gradients all along the path are those of a model in which everything else has changed as well; the gradient
at its start is that of a change too small to be one. So each place has the mean gradient over its own part of the path,
at each token:

    effect ≈ Δ · (1/r) ∫₀ʳ ∂f/∂a (x + s (x′ − x)) ds        r = ⟨Δ, D⟩ / ⟨D, D⟩, within 0 and 1

with D the difference behind the place's block. A layer goes all the way, r = 1, as in integrated gradients. A place
that adds little, or something else, stays where it is, r = 0: attribution patching. Heads share their attention's r by
the squares of what they move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.crossing import Crossing
from whence.core.interception import Change
from whence.core.numerics import widened
from whence.core.places import Place
from whence.methods.edges import Edges
from whence.methods.patching import EDGES, NODES, PARTWAY, TwoRuns, stacked

__all__ = ["BESIDE", "Partway", "shares"]

BESIDE = ("layers", "attentions")
"""Places that have to be seen besides those that are asked about."""
TINY = torch.finfo(torch.float64).tiny


class Partway:
    """Estimates of two runs that have seen `BESIDE`."""

    def __init__(self, runs: TwoRuns, steps: int):
        self.runs, self.steps = runs, steps
        layers = zip(runs.here.of("layers"), runs.other.of("layers"), strict=True)
        self._streams = {own.layer: _moved(own, other) for own, other in layers}
        """Of every block, how far the stream behind it moves: (token, …)."""

    def effects(self, kinds: Sequence[str], edges: Edges | None = None) -> dict[str, np.ndarray]:
        """As of all estimates: (place, part) for each kind; (source, sink) for edges."""
        weights = {
            kind: [shares(r, self.steps) for r in self._reach(kind)] for kind in {*kinds, *(NODES if edges else ())}
        }
        total: dict[str, Any] = {kind: [0.0] * len(weights[kind]) for kind in kinds}
        between: list[Any] = [0.0]

        def visit(n: int, seen: Crossing, change: Change | None) -> None:
            for kind in kinds:
                for place, slope in enumerate(seen.of(kind)):
                    total[kind][place] += self._effect(kind, place, slope) * weights[kind][place][n]
            if edges is not None:
                between[0] = between[0] + edges.weights(seen, change, self._partly(edges, weights, n))

        self.runs.walk([step / self.steps for step in range(self.steps + 1)], visit, PARTWAY)
        found = {kind: stacked([_by_part(kind, row).numpy() for row in total[kind]]) for kind in kinds}
        return found if edges is None else {**found, EDGES: between[0]}

    def _partly(self, edges: Edges, weights: dict[str, list[Tensor]], point: int) -> list[list[Tensor]]:
        """How far the embeddings and every node move, times the weight of a point: sums over tokens come later."""
        first, *places = edges.moved()
        whole = float(shares(torch.ones(()), self.steps)[point])
        nodes = [place.kind for place in self.runs.here.places if place.kind in NODES]
        made, counts = [[move * whole for move in first]], dict.fromkeys(NODES, 0)
        for kind, (move,) in zip(nodes, places, strict=True):
            own = weights[kind][counts[kind]][point].to(move)
            made.append([(move.reshape(*own.shape, -1) * own[..., None]).reshape(move.shape)])
            counts[kind] += 1
        return made

    def _effect(self, kind: str, place: int, slope: Place) -> Tensor:
        """(other − own) · gradient at each token: (token,), or (head, token)."""
        own, other = self.runs.here.of(kind)[place], self.runs.other.of(kind)[place]
        moved = _moved(own, other)
        if slope.gradient is None:
            return moved.new_zeros(moved.shape[:-1]).cpu().double()
        return (moved * widened(slope.gradient).reshape(moved.shape)).sum(-1).cpu().double()

    # -- how far ---------------------------------------------------------------------------------------------

    def _reach(self, kind: str) -> list[Tensor]:
        """r of every place: (token,), or (head, token)."""
        places = list(zip(self.runs.here.of(kind), self.runs.other.of(kind), strict=True))
        if kind != "heads":
            return [self._along(own, _moved(own, other)) for own, other in places]
        squares = [_moved(own, other).square().sum(-1).cpu().double() for own, other in places]
        around = self._reach("attentions")
        if [a.shape for a in around] != [each.shape[1:] for each in squares]:  # some have no heads: all the way
            return [torch.ones_like(each) for each in squares]
        return [a * each / each.sum(0).clamp_min(TINY) for a, each in zip(around, squares, strict=True)]

    def _along(self, place: Place, moved: Tensor) -> Tensor:
        """How far along the stream's way: ⟨Δ, D⟩ / ⟨D, D⟩ at each token; all the way where there is no such stream."""
        stream = self._streams.get(place.layer)
        if stream is None or stream.shape != moved.shape:
            return torch.ones(moved.shape[0], dtype=torch.float64)
        along, whole = ((stream * x).sum(-1).cpu().double() for x in (moved, stream))
        return torch.where(whole > 0, along / whole.clamp_min(TINY), 0.0).clamp(0, 1)


def shares(reach: Tensor, steps: int) -> Tensor:
    """The mean over [0, r] of a function that is known at 0, 1/steps, …, 1 and straight in between, as weights of what
    is known: (point, …). At r = 0 it is the first.

    >>> shares(torch.tensor([0.0, 0.25, 1.0]), 2).T.tolist()
    [[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.25, 0.5, 0.25]]
    """
    made = reach.new_zeros(steps + 1, *reach.shape)
    width = 1 / steps
    for n in range(steps):
        inside = (reach - n * width).clamp(0, width)
        rising = inside.square() / (2 * width)
        made[n] += inside - rising
        made[n + 1] += rising
    made /= torch.where(reach > 0, reach, 1.0)
    made[0] = torch.where(reach > 0, made[0], 1.0)
    return made


def _moved(own: Place, other: Place) -> Tensor:
    """other − own: (token, …), or (head, token, …)."""
    if own.kind == "heads":
        own.parted(own.value)  # raises where heads can't be told from windows
        shape: tuple[int, ...] = tuple(own.value.shape[-3:])
    else:
        shape = (own.value.shape[:-1].numel(), own.value.shape[-1])
    return (widened(other.value) - widened(own.value)).reshape(shape)


def _by_part(kind: str, effect: Tensor) -> Tensor:
    return effect.sum(-1) if kind == "heads" else effect
