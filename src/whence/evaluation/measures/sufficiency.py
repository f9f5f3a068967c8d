"""Are the top features enough?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whence.evaluation.curves import PerturbationMetric
from whence.evaluation.measures.comprehensiveness import BINS
from whence.evaluation.metric import Task, metrics
from whence.models.example import Example
from whence.options import Share
from whence.results.measured import Axis, Measurement

__all__ = ["Sufficiency"]


@metrics.register("sufficiency")
@dataclass(frozen=True, kw_only=True)
class Sufficiency(PerturbationMetric):
    """Loss of probability when only the top q % are left [DeYoung 2020, ERASER, eq. 2, mean over bins].

    mean_q (p(x) - p(top q % of x)), q = 1, 5, 10, 20, 50. Lower is better. ERASER deletes: `fill="delete"`.
    """

    better = "lower"
    fractions: tuple[Share, ...] = BINS

    def inputs(self, task: Task) -> list[Example]:
        return self.kept(task, self.order_of(task, descending=True))

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        drop = self.read(task, original) - self.read(task, logits)
        return {"": Measurement((float(drop.mean()),), curve=tuple(drop.tolist()))}

    def axis(self) -> Axis | None:
        return Axis(self.fractions, "share of features left, most relevant first", "loss of probability")
