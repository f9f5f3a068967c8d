"""Does the relevance add up to the score?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whence.evaluation.metric import AbstractMetric, Task, metrics
from whence.results.measured import Measurement

__all__ = ["ConservationError"]


@metrics.register("conservation")
@dataclass(frozen=True, kw_only=True)
class ConservationError(AbstractMetric):
    """Σ |target - relevance| / Σ |target| over all examples: the share of the scores that is not accounted for.

    Relevance is that of inputs and sinks (`Explanation.conservation`). With `sinks=False` it is that of the inputs
    alone, as in the figure of Ali 2022. Methods without a receipt are measured by the sum of their scores. Lower is
    better.
    """

    better = "lower"
    sinks: bool = True
    """Count what biases and other constants absorbed."""

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        exp, receipt = task.explanation, task.explanation.conservation
        target = float(original[task.target]) if receipt is None else receipt.target
        if receipt is None:
            found = float(task.scores.sum()) + exp.left_out
        else:
            found = receipt.total if self.sinks else receipt.inputs
        return {"": Measurement((abs(target - found),), (abs(target),))}
