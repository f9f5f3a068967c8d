"""Concept vectors, drawn again and again: scores, chance, held-out accuracy (Kim et al. 2018)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whence.concepts import cav, significance
from whence.concepts.collections import Collection
from whence.errors import InputError
from whence.results.concept_scores import LayerScore

__all__ = ["ConceptRun", "Draws", "layer_score", "one_run"]


class ConceptRun(NamedTuple):
    """What one concept vector, and one vector of chance, gave."""

    score: float
    magnitude: float
    accuracy: float
    chance: tuple[float, float]
    """Of a vector between two random sets, and of the same vector turned round: chance has no side."""


class Draws:
    """Which inputs stand on which side in which run. Inputs are numbered through all collections, in order."""

    def __init__(self, sets: dict[str, Collection], size: int | None):
        counts = {role: len(s) for role, s in sets.items() if role != "examples"}
        starts = np.cumsum([0, *counts.values()])
        self.rows = {role: np.arange(n) + start for (role, n), start in zip(counts.items(), starts, strict=False)}
        self.other = "counter" if "counter" in counts else "randoms"
        if _keys(sets[self.other]) <= _keys(sets["concept"]):
            raise InputError(f"{self.other} holds nothing but the concept's inputs: there is only one class to learn")
        most = min(counts["concept"], counts[self.other])
        usual = max(3, most // 2)  # runs must differ to show how much a score depends on the examples
        if "randoms" in counts:
            most = min(most, counts["randoms"] // 2)  # two random sets that share nothing
        if size is not None and size > most:
            raise InputError(f"size={size}, but the collections allow {most} on each side: {counts}")
        self.size = size or min(usual, most)
        self.overlap = (self.size / counts["concept"] + self.size / counts[self.other]) / 2
        """Share of examples that two runs have in common, on average."""
        if self.overlap > 0.9:
            raise InputError(
                f"size={size} uses nearly all examples in every run: pass a smaller size, or more examples"
            )

    def concept(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The concept and its counterpart."""
        return self._some("concept", rng), self._some(self.other, rng)

    def chance(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Two sets that share nothing and differ by chance alone."""
        if "randoms" in self.rows:
            order = rng.permutation(self.rows["randoms"])
            return order[: self.size], order[self.size : 2 * self.size]
        sides = [self._some(role, rng) for role in ("concept", "counter")]
        half = self.size // 2  # as many of the concept on the one side as on the other
        first, second = (np.concatenate([side[n * half : (n + 1) * half] for side in sides]) for n in (0, 1))
        return first, second

    def _some(self, role: str, rng: np.random.Generator) -> np.ndarray:
        return rng.permutation(self.rows[role])[: self.size]


def _keys(collection: Collection) -> set[bytes]:
    return {example.content() for example in collection.examples}


def one_run(space: cav.Space, answers: np.ndarray, draws: Draws, folds: int, rng: np.random.Generator) -> ConceptRun:
    concept, counter = draws.concept(rng)
    vector = space.fit(concept, counter)
    derivatives = answers @ vector.weights
    by_chance = answers @ space.fit(*draws.chance(rng)).weights
    return ConceptRun(
        score=cav.tcav_score(derivatives),
        magnitude=float(derivatives.mean()),
        accuracy=_held_out(space, vector, concept, counter, draws, folds),
        chance=(cav.tcav_score(by_chance), cav.tcav_score(-by_chance)),
    )


def _held_out(
    space: cav.Space, vector: cav.CAV, concept: np.ndarray, counter: np.ndarray, draws: Draws, folds: int
) -> float:
    """Accuracy on the examples that this run did not draw; by cross-validation where it drew (nearly) all."""
    rest = np.setdiff1d(draws.rows["concept"], concept), np.setdiff1d(draws.rows[draws.other], counter)
    if min(map(len, rest)) >= 2:
        return space.accuracy(vector, *rest)
    return space.cross_validated(concept, counter, folds=folds, seed=0)


def layer_score(
    name: str, index: int | None, runs: list[ConceptRun], overlap: float, tests: int, alpha: float
) -> LayerScore:
    scores, chance = tuple(r.score for r in runs), tuple(c for r in runs for c in r.chance)
    p = significance.p_value(scores, chance, overlap)
    return LayerScore(
        layer=name,
        index=index,
        scores=scores,
        chance=chance,
        magnitudes=tuple(r.magnitude for r in runs),
        accuracies=tuple(r.accuracy for r in runs),
        interval=significance.interval(scores, overlap),
        p_uncorrected=significance.p_value(scores, chance),
        p_value=p,
        p_corrected=significance.bonferroni(p, tests),
        alpha=alpha,
    )
