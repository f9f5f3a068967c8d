"""Scores of a concept against those of chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.errors import MissingExtraError

__all__ = ["bonferroni", "interval", "p_value"]


def p_value(scores: Sequence[float], chance: Sequence[float], overlap: float = 0.0) -> float:
    """Two-sided p value that concept vectors score as vectors between random sets do.

    t = (m₁ - m₂) / √(s₁² (1/n₁ + ρ/(1-ρ)) + s₂²/n₂)

    With ρ = 0 it is Welch's t test, the test of the original [Kim et al. 2018, §3.5] with variances that may differ: a
    good concept's scores hardly vary and those of chance do. But runs share examples, so any set of inputs differs from
    chance once there are runs enough. ρ is the share of examples that two runs have in common; it puts back the
    variance that resampling hides [Nadeau and Bengio 2003, eq. 9].
    """
    a, b = np.asarray(scores, np.float64), np.asarray(chance, np.float64)
    hidden = overlap / (1 - overlap)
    shares = np.array([a.var(ddof=1) * (1 / len(a) + hidden), b.var(ddof=1) / len(b)])
    difference = abs(float(a.mean() - b.mean()))
    if shares.sum() < 1e-24:  # no spread anywhere, as when every vector scores 1: t has no finite value
        return 1.0 if difference < 1e-12 else 0.0
    freedom = shares.sum() ** 2 / (shares**2 / [len(a) - 1, len(b) - 1]).sum()
    return float(2 * _stats().t.sf(difference / np.sqrt(shares.sum()), freedom))


def interval(scores: Sequence[float], overlap: float = 0.0, level: float = 0.95) -> tuple[float, float]:
    """Where the mean lies: m ± t(level, n-1) s √(1/n + ρ/(1-ρ)), within [0, 1]; ρ as in `p_value`."""
    a = np.asarray(scores, np.float64)
    mean = float(a.mean())
    if len(a) < 2:
        return mean, mean
    error = a.std(ddof=1) * np.sqrt(1 / len(a) + overlap / (1 - overlap))
    half = float(_stats().t.ppf(0.5 + level / 2, len(a) - 1) * error)
    return max(0.0, mean - half), min(1.0, mean + half)


def bonferroni(p: float, tests: int) -> float:
    """p for the best of several tests: min(1, p · tests)."""
    return min(1.0, p * tests)


def _stats() -> Any:
    try:
        from scipy import stats
    except ImportError:
        raise MissingExtraError("scipy", "concepts", "TCAV") from None
    return stats
