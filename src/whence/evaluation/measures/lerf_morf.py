"""Area between two orders of removal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from whence.evaluation.curves import PerturbationMetric, area
from whence.evaluation.metric import Task, metrics
from whence.models.example import Example
from whence.results.measured import Axis, Measurement

__all__ = ["LerfMorf"]


@metrics.register("lerf_morf")
@dataclass(frozen=True, kw_only=True)
class LerfMorf(PerturbationMetric):
    """Area between removing the least relevant first (LeRF) and the most relevant first (MoRF) [Achtibat 2024, ΔA_F].

    ΔA = ∫ (s(x without the bottom f·N) - s(x without the top f·N)) df, s the target's logit. Higher is better; 0 for
    scores that know nothing.
    """

    output: Literal["logit", "probability"] = "logit"

    def inputs(self, task: Task) -> list[Example]:
        order = self.order_of(task, descending=True)
        return self.removed(task, order[::-1]) + self.removed(task, order)

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        least, most = np.split(self.read(task, logits, self.output), 2)
        curve = least - most
        return {"": Measurement((area(self.fractions, curve),), curve=tuple(curve.tolist()))}

    def axis(self) -> Axis | None:
        return Axis(self.fractions, "share of features removed", f"{self.output}: LeRF − MoRF")
