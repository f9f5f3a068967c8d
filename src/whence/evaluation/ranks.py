"""Rank correlations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["CORRELATIONS", "kendall", "ranks", "spearman"]


def ranks(values: np.ndarray) -> np.ndarray:
    """1 for the smallest; ties share the mean of their ranks."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.append(True, np.diff(ordered) != 0))
    stops = np.append(starts[1:], len(values))
    shared = np.empty(len(values))
    shared[order] = np.repeat((starts + stops + 1) / 2, stops - starts)
    return shared


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """ρ: Pearson's correlation of the ranks."""
    x, y = ranks(a), ranks(b)
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else float("nan")


def kendall(a: np.ndarray, b: np.ndarray) -> float:
    """τ_b = (concordant - discordant) / √(pairs not tied in a · pairs not tied in b)."""
    x, y = (np.sign(v[:, None] - v[None, :]) for v in (a, b))
    size = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / size if size > 0 else float("nan")


CORRELATIONS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {"spearman": spearman, "kendall": kendall}
