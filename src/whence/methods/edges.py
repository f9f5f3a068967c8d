"""Edges between heads and MLPs: what one sends directly to another, and what that does to a target.

Nodes are the input, every head, every MLP (at all tokens) and the target. An edge u → v is what v reads of u without
another node in between: in a residual stream, what u added to it. With a the output of u in the run that is patched, b
that of the other run, and f the target:

    estimate   (b − a) · g,   g the gradient of f at u along the edge alone: through v and all that comes behind v
                                                    [edge attribution patching, Syed et al. 2023; Hanna et al. 2024]
    truth      f(run in which v alone reads b in place of a) − f(run)
                                                    [path patching, Wang et al. 2023; Goldowsky-Dill et al. 2023]

With the gradients of a recipe the estimate is RelP on edges. A gradient is the sum over all ways, so the estimates of
the edges that leave a node sum to the estimate of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.core.crossing import Crossing
from whence.core.cutting import CutRun
from whence.core.interception import Change
from whence.core.layout import CannotSplit
from whence.core.numerics import widened
from whence.core.overwriting import Frozen, Overwrite, Writing, overwritten
from whence.core.places import Place
from whence.methods.patching import EDGES, NODES, TRUTH, TwoRuns
from whence.models.attending import in_the_open
from whence.models.example import Example
from whence.progress import track

__all__ = ["Edges", "Node"]

INPUT, TARGET = "input", "target"


class Node(NamedTuple):
    """What edges lead from or to."""

    kind: str
    """"input", "heads", "mlps" or "target"."""
    place: int = 0
    """Among those of its kind, in the order in which they are computed."""
    part: int | None = None
    """Of heads, which."""
    layer: int = -1
    name: str = ""


Values = Mapping[str, Sequence[Tensor]]
"""By kind, what every place gives: (part, …), or (row, part, …)."""


class Edges:
    """All edges of a model, in two runs of it."""

    def __init__(self, runs: TwoRuns):
        self.runs = runs
        self.levels = list(_levels([place for place in runs.here.places if place.kind in NODES]))
        """Nodes that are computed together, in the order in which they are: the heads of a layer, or its MLP."""
        between = [node for level in self.levels for node in level]
        self.sources = (Node(INPUT, name=INPUT), *between)
        self.sinks = (*between, Node(TARGET, layer=_last(between) + 1, name=TARGET))
        self._row = {node: n for n, node in enumerate(self.sources)}

    # -- estimates -------------------------------------------------------------------------------------------

    def estimated(self) -> np.ndarray:
        """(source, sink), NaN where no edge is."""
        return self.weights(self.runs.here, None, self.moved())

    def along(self, steps: int) -> np.ndarray:
        """The same with mean gradients between the embeddings of both inputs."""
        moved = self.moved()
        return self.runs.mean_along(steps, lambda seen, change: {EDGES: self.weights(seen, change, moved)})[EDGES]

    def weights(self, slopes: Crossing, change: Change | None, moved: list[list[Tensor]]) -> np.ndarray:
        """(other − own) · gradient along each edge, at the point that `change` leads to."""
        runs = self.runs
        batch = runs.model.collate([runs.example], [runs.aim])
        found = np.full((len(self.sources), len(self.sinks)), np.nan)
        with (
            in_the_open(runs.model.module),
            CutRun(
                runs.model.forward, batch, module=runs.model.module, target=runs.target_of(batch), recipe=runs.recipe,
                kinds=NODES, change=change,
            ) as cut,
        ):  # fmt: skip
            total = [place.gradient for place in slopes.places if place.kind in NODES]
            column = 0
            for level, place, gradient in zip(self.levels, cut.places, total, strict=True):
                for node in level:
                    if gradient is None:  # nothing leads from here to the target
                        start = torch.zeros_like(place.given)
                    else:
                        start = gradient.to(place.given).reshape(place.given.shape)
                    found[:, column] = self._sent(cut, moved, place.given, _only(start, node))
                    column += 1
            found[:, column] = self._sent(cut, moved, cut.scores, torch.ones_like(cut.scores))
        return found

    def _sent(self, cut: CutRun, moved: list[list[Tensor]], root: Tensor, start: Tensor) -> np.ndarray:
        """What every source sends directly to `root`, each times how far it moved."""
        inputs, places = cut.back(root, start)
        row = np.full(len(self.sources), np.nan)
        known = [float((widened(g) * m).sum()) for g, m in zip(inputs, moved[0], strict=True) if g is not None]
        row[0] = sum(known) if known else np.nan
        at = 1
        for level, gradient, (move,) in zip(self.levels, places, moved[1:], strict=True):
            if gradient is not None:
                sums = (widened(gradient).reshape(move.shape) * move).sum(-1)
                row[at : at + len(level)] = (sums if level[0].part is not None else sums.sum(0)[None]).cpu().numpy()
            at += len(level)
        return row

    def moved(self) -> list[list[Tensor]]:
        """other − own, of the embeddings and then of every place."""
        runs = self.runs
        other = "corrupt" if runs.into == "clean" else "clean"
        first = [widened(b) - widened(a) for a, b in zip(runs.leaves(runs.into), runs.leaves(other), strict=True)]
        pairs = [(own, far) for own, far in zip(runs.here.places, runs.other.places, strict=True) if own.kind in NODES]
        return [first, *([widened(own.parted(far.value)) - widened(own.parted(own.value))] for own, far in pairs)]

    # -- the truth -------------------------------------------------------------------------------------------

    def true_effects(self, where: np.ndarray, *, progress: bool | None = False) -> np.ndarray:
        """The same by runs of the model, for edges that `where` (source, sink) names; NaN for all others.

        What reaches a sink by the edge alone is seen in a run in which all nodes keep their own values but the source:
        one such run for each source. Then the model runs with that in the sink's place: one run for each edge.
        """
        found = np.full(where.shape, np.nan)
        base = self.runs.here.target
        for row in track(np.flatnonzero(where.any(1)).tolist(), TRUTH, int(where.any(1).sum()), show=progress):
            score, came = self._read(self._frozen(self.sources[row]), self.sources[row].kind == INPUT)
            sinks = [n for n in np.flatnonzero(where[row]).tolist() if self.sinks[n].kind != TARGET]
            if where[row, -1]:
                found[row, -1] = score - base
            for n, changed in zip(sinks, self._with([self.sinks[n] for n in sinks], came), strict=True):
                found[row, n] = changed - base
        return found

    def _values(self, run: Crossing) -> dict[str, list[Tensor]]:
        return {kind: [place.parted(place.value) for place in run.of(kind)] for kind in NODES}

    def _frozen(self, source: Node) -> dict[str, list[Tensor]]:
        """The values of all nodes in the run that is patched, with one source's in the other."""
        values, other = self._values(self.runs.here), self._values(self.runs.other)
        if source.kind in NODES:
            values[source.kind][source.place] = _exchanged(values, other, source)
        return values

    def _read(self, values: Values, from_other: bool) -> tuple[float, dict[str, dict[int, Tensor]]]:
        """The target of a run in which every node is given its value, and what came to each: (row, part, …)."""
        frozen = {kind: Frozen(own) for kind, own in values.items() if own}
        (score,) = self._run(self.runs.other_example if from_other else self.runs.example, 1, frozen)
        return score, {kind: own.came for kind, own in frozen.items()}

    def _with(self, sinks: Sequence[Node], came: Mapping[str, Mapping[int, Tensor]]) -> list[float]:
        """The target with each sink, one at a time, as it came."""

        def writing(rows: slice) -> dict[str, Writing]:
            chosen = sinks[rows]
            made: dict[str, Writing] = {}
            for kind, values in came.items():
                given = [values[n][0] for n in range(len(values))]
                mask = torch.zeros(len(chosen), len(given), max(map(len, given)), dtype=torch.bool)
                for n, sink in enumerate(chosen):
                    if sink.kind == kind:
                        mask[n, sink.place, _part(sink)] = True
                made[kind] = Overwrite(given, mask)
            return made

        return self._batched(len(sinks), writing)

    def scored(self, keep: np.ndarray, *, progress: bool | None = False) -> np.ndarray:
        """The target with the edges of a circuit, `keep` (way, source, sink), as in the run that is patched, and along
        all others what the other run sends: one number for each way   [MIB, Mueller et al. 2025].

        Nodes are computed one level after the other, from what the edges of the circuit bring to each.
        """
        other, ways = self._values(self.runs.other), len(keep)
        now = {kind: [v[None].repeat(ways, 1, 1) for v in own] for kind, own in other.items()}
        column = 0
        for level in track(self.levels, "circuits", len(self.levels), show=progress):
            made = [self._reached(keep[:, :, column + n], now, other, node)[1] for n, node in enumerate(level)]
            for node, own in zip(level, made, strict=True):
                now[node.kind][node.place][:, _part(node)] = own
            column += len(level)
        return np.array(self._reached(keep[:, :, column], now, other, None)[0])

    def _reached(self, keep: np.ndarray, now: Values, other: Values, sink: Node | None) -> tuple[list[float], Tensor]:
        """The target, and what comes to a node, (way, part, …), where `keep` (way, source) says which sources are read
        as they are now."""
        mixed = {kind: [own.clone() for own in values] for kind, values in now.items()}
        for source, row in self._row.items():
            if source.kind in NODES:
                gone = torch.from_numpy(~keep[:, row])
                part, place = _part(source), mixed[source.kind][source.place]
                place[gone, part] = other[source.kind][source.place][part].to(place)
        scores = [0.0] * len(keep)
        came = torch.zeros(()) if sink is None else now[sink.kind][sink.place][:, _part(sink)].clone()
        for from_other in (False, True):
            ways = np.flatnonzero(keep[:, 0] != from_other).tolist()
            try:
                groups = [ways[rows] for rows in self.runs.chunks(len(ways))]
                found = [self._given(mixed, group, from_other) for group in groups]
            except CannotSplit:  # experts mix the rows of a batch, or the target was written for one input
                groups = [[way] for way in ways]
                found = [self._given(mixed, group, from_other) for group in groups]
            for group, (own, frozen) in zip(groups, found, strict=True):
                for way, score in zip(group, own, strict=True):
                    scores[way] = score
                if sink is not None:
                    came[group] = frozen[sink.kind].came[sink.place][:, _part(sink)]
        return scores, came

    def _given(self, values: Values, ways: list[int], from_other: bool) -> tuple[list[float], dict[str, Frozen]]:
        """Runs in which every node has its value of each of some ways."""
        frozen = {kind: Frozen([value[ways] for value in own]) for kind, own in values.items() if own}
        example = self.runs.other_example if from_other else self.runs.example
        return self._run(example, len(ways), frozen), frozen

    # -- runs ------------------------------------------------------------------------------------------------

    def _batched(self, count: int, writing: Callable[[slice], Mapping[str, Writing]]) -> list[float]:
        found: list[float] = []
        for rows in self.runs.chunks(count):
            try:
                found += self._run(self.runs.example, rows.stop - rows.start, writing(rows))
            except CannotSplit:  # experts mix the rows of a batch, or the target was written for one input
                for n in range(rows.start, rows.stop):
                    found += self._run(self.runs.example, 1, writing(slice(n, n + 1)))
        return found

    def _run(self, example: Example, rows: int, by: Mapping[str, Writing]) -> list[float]:
        runs = self.runs
        batch = runs.model.collate([example] * rows, [runs.aim] * rows)
        with in_the_open(runs.model.module):
            scores = overwritten(
                runs.model.forward, batch, module=runs.model.module, target=runs.target_of(batch), by=by
            )  # fmt: skip
        return [float(score) for score in scores]


def _levels(places: Sequence[Place]) -> Iterator[list[Node]]:
    seen = dict.fromkeys(NODES, 0)
    counted = [(place.kind, place.layer) for place in places]
    for n, place in enumerate(places):
        number, layer = seen[place.kind], place.layer or 0
        seen[place.kind] += 1
        same = counted.count(counted[n])
        which = f" ({counted[:n].count(counted[n]) + 1} of {same})" if same > 1 else ""
        where = f"layer {layer}{which}"
        if place.kind == "heads":
            parts = len(place.parted(place.value))
            yield [Node("heads", number, part, layer, f"{where} head {part}") for part in range(parts)]
        else:
            yield [Node(place.kind, number, None, layer, f"{where} mlp")]


def _last(nodes: Sequence[Node]) -> int:
    return max((node.layer for node in nodes), default=-1)


def _part(node: Node) -> slice:
    """The parts of its place that a node is: one head, or all tokens."""
    return slice(None) if node.part is None else slice(node.part, node.part + 1)


def _only(value: Tensor, node: Node) -> Tensor:
    """What of a place's tensor belongs to the node, and zeros."""
    if node.part is None:
        return value
    made = torch.zeros_like(value)
    heads = (..., _part(node), slice(None), slice(None))
    made[heads] = value[heads]
    return made


def _exchanged(values: Values, other: Values, source: Node) -> Tensor:
    made = values[source.kind][source.place].clone()
    made[_part(source)] = other[source.kind][source.place][_part(source)]
    return made
