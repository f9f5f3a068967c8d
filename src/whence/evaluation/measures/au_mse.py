"""Area under the curve of squared change of the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from whence.evaluation.curves import PerturbationMetric, area
from whence.evaluation.metric import Task, metrics
from whence.models.example import Example
from whence.results.measured import Axis, Measurement

__all__ = ["AUMSE"]


@metrics.register("au_mse")
@dataclass(frozen=True, kw_only=True)
class AUMSE(PerturbationMetric):
    """Area under the change of all logits as features are pruned, least relevant first [Ali 2022, pruning].

    Replace n = ceil(f·N) by ascending |R|, f = 0, .1, …, 1:
    AU-MSE = ∫ mean Σ_c (logit_c(x) - logit_c(x_f))² df, by trapezoids. Lower is better.
    """

    better = "lower"
    order: Literal["signed", "absolute"] = "absolute"
    """Features are ranked by R or by |R|."""

    def inputs(self, task: Task) -> list[Example]:
        return self.removed(task, self.order_of(task, descending=False))

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        change = np.asarray(logits, dtype=np.float64) - np.asarray(original, dtype=np.float64)
        curve = (change**2).sum(-1)
        return {"": Measurement((area(self.fractions, curve),), curve=tuple(curve.tolist()))}

    def axis(self) -> Axis | None:
        return Axis(self.fractions, "share of features removed, least relevant first", "Σ (change of logit)²")
