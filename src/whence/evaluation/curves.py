"""Curves: the model's output as features are taken away, or brought back, in the order of their relevance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from whence.errors import OptionError
from whence.evaluation.cases import Case
from whence.evaluation.metric import AbstractMetric, Task, probability
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.options import Share
from whence.results.measured import Axis

__all__ = ["PerturbationMetric", "area", "counts", "eligible", "ranked", "tenths"]


def tenths(first: int = 0, last: int = 10) -> tuple[float, ...]:
    """0, .1, …, 1."""
    return tuple(n / 10 for n in range(first, last + 1))


@dataclass(frozen=True, kw_only=True)
class PerturbationMetric(AbstractMetric):
    """The switches that all perturbation metrics share. n = ceil(fraction · N) of the N features count."""

    order: Literal["signed", "absolute"] = "signed"
    """Features are ranked by R or by |R|."""
    fill: str = "unk"
    """What stands in a feature's place: unk, mask, pad, or delete; for images black, mean, zero."""
    special: Literal["kept", "counted"] = "kept"
    """[CLS], [SEP], … stay and do not count in N, or are features like any other. Padding never counts."""
    fractions: tuple[Share, ...] = tenths()
    protocol: Literal["", "ali"] = ""
    """`ali`: as in the public code of Ali et al. 2022: UNK, special tokens counted. Its target is the true label, which
    is a switch of the whole evaluation: `whence.evaluate(…, protocol="ali")` sets both."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.fractions) < 2 or list(self.fractions) != sorted(set(self.fractions)):
            raise OptionError(f"{self.name}: fractions={self.fractions} are not at least two that grow")
        if self.protocol == "ali":
            object.__setattr__(self, "fill", "unk")
            object.__setattr__(self, "special", "counted")

    def check(self, model: AbstractAdapter, cases: Sequence[Case], methods: Sequence[str]) -> None:
        super().check(model, cases, methods)
        model.check_fill(self.fill)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"n": "ceil(fraction·N)"}

    def order_of(self, task: Task, *, descending: bool) -> np.ndarray:
        return ranked(task.scores, eligible(task.case, self.special), self.order, descending=descending)

    def kept(self, task: Task, order: np.ndarray) -> list[Example]:
        """For each fraction: only the first n features of `order` are there."""
        return [self._perturbed(task, order[n:]) for n in counts(self.fractions, len(order))]

    def removed(self, task: Task, order: np.ndarray) -> list[Example]:
        """For each fraction: the first n features of `order` are gone."""
        return [self._perturbed(task, order[:n]) for n in counts(self.fractions, len(order))]

    def _perturbed(self, task: Task, gone: np.ndarray) -> Example:
        if not len(gone):
            return task.case.example
        keep = np.ones(task.scores.size, dtype=bool)
        keep[gone] = False
        return task.model.masked(task.case.example, keep, self.fill)

    def read(self, task: Task, logits: np.ndarray, output: str = "probability") -> np.ndarray:
        """Outputs as what the curve shows."""
        if output == "logit":
            return np.asarray(logits, dtype=np.float64)[..., task.target]
        if output == "accuracy":
            return np.asarray(logits.argmax(-1) == task.target, np.float64)
        return probability(task.model, logits, task.target)

    def axis(self) -> Axis | None:
        return Axis(self.fractions, "share of features", "probability of the target")


def eligible(case: Case, special: str) -> np.ndarray:
    """Which features count: all, or all but special tokens."""
    marks = case.example.special
    if special == "counted" or not marks.any() or marks.all():
        return np.ones(case.features, dtype=bool)
    return ~marks


def ranked(scores: np.ndarray, counted: np.ndarray, order: str, *, descending: bool) -> np.ndarray:
    """Indices of the features that count, by relevance. Ties stay in the order of the input."""
    chosen = np.flatnonzero(counted)
    values = np.abs(scores[chosen]) if order == "absolute" else scores[chosen]
    return chosen[np.argsort(-values if descending else values, kind="stable")]


def counts(fractions: tuple[float, ...], total: int) -> list[int]:
    """n = ceil(fraction · N); 0.3 · 10 is 3, whatever floats say."""
    return [min(total, math.ceil(round(f * total, 9))) for f in fractions]


def area(x: tuple[float, ...], y: np.ndarray) -> float:
    """Area under a curve by trapezoids, per unit of x: for fractions from 0 to 1 the area itself."""
    points = np.asarray(x, dtype=np.float64)
    return float(((y[1:] + y[:-1]) / 2 * np.diff(points)).sum() / (points[-1] - points[0]))
