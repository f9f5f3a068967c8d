"""Are all features that matter among the top ones?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whence.evaluation.curves import PerturbationMetric
from whence.evaluation.metric import Task, metrics
from whence.models.example import Example
from whence.options import Share
from whence.results.measured import Axis, Measurement

__all__ = ["BINS", "Comprehensiveness"]

BINS = (0.01, 0.05, 0.1, 0.2, 0.5)


@metrics.register("comprehensiveness")
@dataclass(frozen=True, kw_only=True)
class Comprehensiveness(PerturbationMetric):
    """Loss of probability when the top q % are taken out [DeYoung 2020, ERASER, eq. 1, mean over bins].

    mean_q (p(x) - p(x without the top q %)), q = 1, 5, 10, 20, 50. Higher is better. ERASER deletes: `fill="delete"`.
    """

    fractions: tuple[Share, ...] = BINS

    def inputs(self, task: Task) -> list[Example]:
        return self.removed(task, self.order_of(task, descending=True))

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        drop = self.read(task, original) - self.read(task, logits)
        return {"": Measurement((float(drop.mean()),), curve=tuple(drop.tolist()))}

    def axis(self) -> Axis | None:
        return Axis(self.fractions, "share of features taken out, most relevant first", "loss of probability")
