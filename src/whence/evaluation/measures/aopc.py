"""Area over the perturbation curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from whence.evaluation.curves import PerturbationMetric
from whence.evaluation.metric import Task, metrics
from whence.models.example import Example
from whence.results.measured import Axis, Measurement

__all__ = ["AOPC"]


@metrics.register("aopc")
@dataclass(frozen=True, kw_only=True)
class AOPC(PerturbationMetric):
    """How far the output falls, on average, as features go, most relevant first [Samek 2017, eq. 12].

    AOPC = 1/(L+1) Σ_{k=0}^{L} (p(x) - p(x without the top f_k·N)), f_0 = 0, …, f_L = 1. Higher is better.
    """

    output: Literal["probability", "logit"] = "probability"

    def inputs(self, task: Task) -> list[Example]:
        return self.removed(task, self.order_of(task, descending=True))

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        drop = self.read(task, original, self.output) - self.read(task, logits, self.output)
        return {"": Measurement((float(drop.mean()),), curve=tuple(drop.tolist()))}

    def axis(self) -> Axis | None:
        return Axis(self.fractions, "share of features removed, most relevant first", f"drop of the {self.output}")
