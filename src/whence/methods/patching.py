"""Two runs of a model with one target, and what a place of the one does in the other.

With a the activation of a place in the run that is patched, b that of the other run, and f the target:

    truth                  f(run with a := b) − f(run)
    relp                   (b − a) · ∂f/∂a under an LRP recipe           [RelP, Jafari et al. 2025]
    attribution            (b − a) · ∂f/∂a                               [attribution patching, Nanda 2023; Syed 2023]
    integrated_gradients   (b − a) · mean_k ∂f/∂a at embeddings on the way from the one text to the other
                                                                         [EAP-IG, Hanna et al. 2024]
    partway                the same as far as each place goes itself     [`methods.partway`]

An estimate costs two passes there and back for all places together, the truth a forward pass for each. What one place
sends to another is in `methods.edges`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.crossing import Crossing, inside
from whence.core.gradients import leaves_of
from whence.core.interception import Change, Leaf
from whence.core.layout import CannotSplit
from whence.core.numerics import widened
from whence.core.overwriting import Overwrite, overwritten
from whence.core.recipe import Recipe, recipes
from whence.errors import InputError, ModelError, UnknownNameError
from whence.methods.propagate import DEFAULT_RECIPE
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.attending import in_the_open
from whence.models.batching import budget_of
from whence.models.example import Example, ExampleBatch
from whence.models.targets import Term
from whence.progress import track

__all__ = ["EDGES", "ESTIMATES", "NODES", "PARTWAY", "TRUTH", "TwoRuns", "recipe_of", "stacked"]

RELP = recipes["exact"].but(name="relp", softmax="gradient")
"""Slopes of activations, halves of products and norms held constant, as in LRP; attention is left its gradient. With
attention held constant, as in `exact`, a place that acts through queries or keys alone has no effect at all: the head
that says which token came before, in every induction circuit."""
PATH = "integrated_gradients"
PARTWAY = "partway"
TRUTH = "activation"
DEFAULT = "lrp"
EDGES = "edges"
NODES = ("heads", "mlps")
"""What edges lead from and to, besides the input and the target."""
ESTIMATES = {PARTWAY: recipes["gi"], "relp": RELP, "attribution": recipes["gi"], PATH: recipes["gi"]}
"""Methods that estimate, and the recipe of each. Any other recipe is one too."""


def recipe_of(method: str | Recipe) -> Recipe:
    """The recipe that a method goes back with."""
    if isinstance(method, Recipe):
        return method
    if method in ESTIMATES or method == TRUTH:
        return ESTIMATES.get(method, recipes["gi"])
    if method == DEFAULT:
        return recipes[DEFAULT_RECIPE]
    if method not in recipes:
        raise UnknownNameError("way to patch", method, [*ESTIMATES, TRUTH, DEFAULT, *recipes])
    return recipes[method]


class TwoRuns:
    """A clean and a corrupt run of one model, and the run (`into`) in which places are overwritten with the other's.

    The target is decided on the clean input, and is the same sum of outputs in every run.
    """

    def __init__(
        self,
        model: AbstractAdapter,
        clean: Example,
        corrupt: Example,
        choice: Any = None,
        *,
        kinds: Sequence[str],
        beside: Sequence[str] = (),
        into: str = "clean",
        recipe: Recipe = RELP,
    ):
        self.model, self.recipe, self.into = model, recipe, into
        asked = (own for kind in (*kinds, *beside) for own in (NODES if kind == EDGES else (kind,)))
        self.kinds = tuple(dict.fromkeys(asked))
        clean, self.aim = model.aim(clean, choice)
        corrupt, _ = model.aim(corrupt, choice)
        _check_alike(clean, corrupt)
        self.terms: list[Term] = []
        self.seen: dict[str, Crossing] = {}
        self.examples = {"clean": clean, "corrupt": corrupt}
        self.name = ""
        self._looked_up: dict[str, list[Tensor]] = {}
        for run in ("clean", "corrupt"):  # the clean one first: it decides the target
            self.seen[run] = self._crossed(run)
        needed = ["heads" if kind == EDGES else kind for kind in kinds]
        missing = [kind for kind in needed if not self.seen["clean"].of(kind)]
        if missing:
            raise ModelError(f"no {missing[0]} were found inside {model.name}: it has no such places")
        shapes = [[(p.kind, p.layer, p.value.shape) for p in crossing.places] for crossing in self.seen.values()]
        if shapes[0] != shapes[1]:
            raise ModelError("the model computes other tensors for the corrupt input than for the clean one")

    # -- runs ------------------------------------------------------------------------------------------------

    @property
    def here(self) -> Crossing:
        """The run that is patched."""
        return self.seen[self.into]

    @property
    def other(self) -> Crossing:
        return self.seen["corrupt" if self.into == "clean" else "clean"]

    @property
    def example(self) -> Example:
        """What the patched run reads."""
        return self.examples[self.into]

    @property
    def other_example(self) -> Example:
        """What the other run reads."""
        return self.examples["corrupt" if self.into == "clean" else "clean"]

    def _crossed(self, run: str, change: Change | None = None) -> Crossing:
        batch = self.model.collate([self.examples[run]], [self.aim])
        target = self.target_of(batch)
        with in_the_open(self.model.module):
            seen = inside(
                self.model.forward, batch, module=self.model.module, target=target, recipe=self.recipe,
                kinds=self.kinds, change=change,
            )  # fmt: skip
        if isinstance(target, TargetScores) and not self.name:
            (self.name,) = target.names
            self.terms = target.terms[0] if target.terms else []
        return seen

    def target_of(self, batch: ExampleBatch) -> Callable[[Any], Tensor]:
        if not self.terms:
            return TargetScores(self.model, batch, [self.aim] * batch.examples)
        return lambda outputs: self.model.sum_of_terms(outputs, batch, [self.terms] * batch.examples)

    # -- estimates -------------------------------------------------------------------------------------------

    def estimated(self, kind: str) -> np.ndarray:
        """(other − own) · gradient under the recipe, summed over each part of each place: (place, part)."""
        return self._effects(kind, self.here)

    def along(self, kinds: Sequence[str], steps: int) -> dict[str, np.ndarray]:
        """The same with the mean gradient at `steps` points between the embeddings of both inputs."""
        return self.mean_along(steps, lambda seen, _: {kind: self._effects(kind, seen) for kind in kinds})

    def mean_along(
        self, steps: int, effects: Callable[[Crossing, Change | None], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """The mean of effects at `steps` points between the embeddings of both inputs, from the pass at each."""
        total: dict[str, Any] = defaultdict(float)

        def add(_: int, seen: Crossing, change: Change | None) -> None:
            for kind, found in effects(seen, change).items():
                total[kind] = total[kind] + found / steps

        self.walk([(step + 0.5) / steps for step in range(steps)], add, PATH)
        return total

    def walk(self, points: Sequence[float], visit: Callable[[int, Crossing, Change | None], None], name: str) -> None:
        """Visit points on the way from the embeddings of the patched run, at 0, to those of the other, at 1: the number
        of a point, the pass there, and what leads to it. No more than one pass is held at a time, besides both runs."""
        ends = {0.0: self.here, 1.0: self.other}
        for n, share in enumerate(track(points, name, len(points))):
            change = self.between(share) if share else None
            visit(n, ends[share] if share in ends else self._crossed(self.into, change), change)

    def between(self, share: float) -> Change:
        """Embeddings on the way from those of the patched run to those of the other."""
        own, other = (self.leaves(run) for run in (self.into, "corrupt" if self.into == "clean" else "clean"))

        def change(leaf: Leaf, number: int) -> Tensor:
            return torch.lerp(own[number], other[number], share).to(leaf.tensor)

        return change

    def leaves(self, run: str) -> list[Tensor]:
        """What the model looks up for one of the inputs."""
        if run not in self._looked_up:
            batch = self.model.collate([self.examples[run]], [self.aim])
            self._looked_up[run] = leaves_of(self.model.forward, batch)
        if len({tuple(v.shape for v in found) for found in self._looked_up.values()}) > 1:
            raise ModelError("the model looks other things up for the corrupt input than for the clean one")
        return self._looked_up[run]

    def _effects(self, kind: str, slopes: Crossing) -> np.ndarray:
        """(other − own) · gradient, with the gradients of any pass."""
        rows = []
        for own, other, slope in zip(self.here.of(kind), self.other.of(kind), slopes.of(kind), strict=True):
            moved = widened(own.parted(other.value)) - widened(own.parted(own.value))
            gradient = 0.0 if slope.gradient is None else widened(own.parted(slope.gradient))
            rows.append((moved * gradient).sum(1).cpu().double().numpy())
        return stacked(rows)

    # -- the truth -------------------------------------------------------------------------------------------

    def true_effects(self, kind: str, *, only: np.ndarray | None = None, progress: bool | None = False) -> np.ndarray:
        """The target with each part of each place overwritten by the other run's, less the target of the run; `only`
        where that says so (place, part), NaN elsewhere."""
        moved = [
            (own.parted(other.value) != own.parted(own.value)).any(1).tolist()
            for own, other in zip(self.here.of(kind), self.other.of(kind), strict=True)
        ]
        parts = [len(row) for row in moved]
        # What is equal in both runs has no effect: in a causal model, all before the first word that differs.
        cells = [(place, part) for place, row in enumerate(moved) for part, differs in enumerate(row) if differs]
        found = stacked([np.zeros(count) for count in parts])
        if only is not None:
            cells = [cell for cell in cells if only[cell]]
            found[~only] = np.nan
        if not cells:
            return found

        def one_each(rows: slice) -> dict[str, Tensor]:
            chosen = cells[rows]
            where = torch.zeros(len(chosen), len(parts), max(parts), dtype=torch.bool)
            for n, cell in enumerate(chosen):
                where[(n, *cell)] = True
            return {kind: where}

        scores = self._scored([kind], len(cells), one_each, progress)
        for cell, score in zip(cells, scores, strict=True):
            found[cell] = score - self.here.target
        return found

    def scored(self, where: Mapping[str, Tensor], *, progress: bool | None = False) -> np.ndarray:
        """The target of the run with places overwritten, in many ways: by kind, (way, place, part), bool."""
        ways = len(next(iter(where.values())))
        return self._scored(where, ways, lambda rows: {kind: mask[rows] for kind, mask in where.items()}, progress)

    def _scored(
        self, kinds: Iterable[str], ways: int, where: Callable[[slice], Mapping[str, Tensor]], progress: bool | None
    ) -> np.ndarray:
        """`scored` with masks that are made for the rows of a batch: all of them are cells × places × parts."""
        held = {kind: [place.parted(place.value) for place in self.other.of(kind)] for kind in kinds}
        chunks = self.chunks(ways)
        found: list[float] = []
        for rows in track(chunks, TRUTH, ways, [rows.stop - rows.start for rows in chunks], show=progress):
            try:
                found += self._overwritten(held, where(rows))
            except CannotSplit:  # experts mix the rows of a batch, or the target was written for one input
                for n in range(rows.start, rows.stop):
                    found += self._overwritten(held, where(slice(n, n + 1)))
        return np.array(found)

    def chunks(self, ways: int) -> list[slice]:
        """So many copies of the input, as batches."""
        size = max(1, budget_of(self.model.device, "explain") // self.example.cost)
        if self.model.beside([self.example]) == "alone":
            size = 1
        return [slice(start, min(ways, start + size)) for start in range(0, ways, size)]

    def _overwritten(self, held: Mapping[str, Sequence[Tensor]], where: Mapping[str, Tensor]) -> list[float]:
        count = len(next(iter(where.values())))
        batch = self.model.collate([self.example] * count, [self.aim] * count)
        by = {kind: Overwrite(held[kind], mask) for kind, mask in where.items()}
        with in_the_open(self.model.module):
            scores = overwritten(
                self.model.forward, batch, module=self.model.module, target=self.target_of(batch), by=by
            )
        return [float(score) for score in scores]


def _check_alike(clean: Example, corrupt: Example) -> None:
    for name in {**clean.inputs, **corrupt.inputs}:
        a, b = (tuple(e.inputs[name].shape) if name in e.inputs else () for e in (clean, corrupt))
        if a != b:
            raise InputError(
                f"the clean input has {clean.count} tokens and the corrupt one {corrupt.count}: activations can only "
                "be exchanged token by token. Change words for others with as many tokens"
            )
    if all(torch.equal(value, corrupt.inputs[name]) for name, value in clean.inputs.items()):
        raise InputError("the clean and the corrupt input are the same to the model: change the word that decides")


def stacked(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as one array, NaN behind the shorter ones."""
    made = np.full((len(rows), max(map(len, rows))), np.nan)
    for n, row in enumerate(rows):
        made[n, : len(row)] = row
    return made
