"""Do methods agree?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from whence.evaluation.curves import eligible
from whence.evaluation.metric import AbstractMetric, Need, Task, metrics
from whence.evaluation.ranks import CORRELATIONS
from whence.results.measured import Measurement

__all__ = ["MethodAgreement", "similarity"]


@metrics.register("agreement")
@dataclass(frozen=True, kw_only=True)
class MethodAgreement(AbstractMetric):
    """Rank correlation of a method's scores with those of each other method, and its mean over them.

    Spearman's ρ = Pearson's r of the ranks (ties share their mean rank), or Kendall's τ_b. Each pair is a column of the
    table, `agreement:OTHER`. Neither high nor low is good: it says who speaks alike.
    """

    better = ""
    needs: ClassVar[tuple[Need, ...]] = ("methods",)
    correlation: Literal["spearman", "kendall"] = "spearman"
    order: Literal["signed", "absolute"] = "signed"
    special: Literal["kept", "counted"] = "kept"
    """Special tokens are left out, or features like any other."""

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        counted = eligible(task.case, self.special)
        found = {}
        for other, exp in task.others.items():
            theirs = np.asarray(exp.scores, dtype=np.float64).reshape(-1)
            found[other] = similarity(task.scores[counted], theirs[counted], self.correlation, self.order)
        known = [v for v in found.values() if not np.isnan(v)]
        made = {f":{other}": _one(value) for other, value in found.items()}
        return {"": _one(float(np.mean(known)) if known else float("nan")), **made}


def similarity(a: np.ndarray, b: np.ndarray, correlation: str, order: str) -> float:
    """Rank correlation of two sets of scores; NaN where one of them is constant."""
    if order == "absolute":
        a, b = np.abs(a), np.abs(b)
    return CORRELATIONS[correlation](a, b)


def _one(value: float) -> Measurement:
    return Measurement.missing() if np.isnan(value) else Measurement((value,))
