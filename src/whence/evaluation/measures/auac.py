"""Area under the activation curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whence.evaluation.curves import PerturbationMetric, area
from whence.evaluation.metric import Task, metrics
from whence.models.example import Example
from whence.results.measured import Measurement

__all__ = ["AUAC"]


@metrics.register("auac")
@dataclass(frozen=True, kw_only=True)
class AUAC(PerturbationMetric):
    """Area under the target's probability as features are inserted, most relevant first [Ali 2022, generate].

    Begin with every feature replaced; insert n = ceil(f·N) by descending R, f = 0, .1, …, 1:
    AUAC = ∫ mean p(target | top f·N) df, by trapezoids. Higher is better.
    """

    def inputs(self, task: Task) -> list[Example]:
        return self.kept(task, self.order_of(task, descending=True))

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        curve = self.read(task, logits)
        return {"": Measurement((area(self.fractions, curve),), curve=tuple(curve.tolist()))}
