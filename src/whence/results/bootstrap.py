"""Percentile bootstrap over examples. One seed and number of examples give the same resamples: pairs stay."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

__all__ = ["Estimate", "difference", "estimate", "means"]


class Estimate(NamedTuple):
    value: float
    low: float = float("nan")
    high: float = float("nan")
    examples: int = 0


@lru_cache(maxsize=4)
def _weights(examples: int, resamples: int, seed: int) -> np.ndarray:
    """How often each example is drawn in each resample: (resample, example)."""
    drawn = np.random.default_rng(seed).multinomial(examples, np.full(examples, 1 / examples), size=resamples)
    return drawn.astype(np.float32)


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """Mean over the last axis of sums over sums; parts whose sum is 0 do not count."""
    counted = denominators > 0
    shares = np.divide(numerators, denominators, out=np.zeros_like(numerators), where=counted)
    number = counted.sum(-1)
    return np.where(number > 0, shares.sum(-1) / np.maximum(number, 1), np.nan)


def _resampled(numerators: np.ndarray, denominators: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    drawn = _weights(len(numerators), resamples, seed)
    return _ratio(drawn @ numerators, drawn @ denominators)


def estimate(
    numerators: np.ndarray, denominators: np.ndarray, level: float = 0.95, resamples: int = 0, seed: int = 0
) -> Estimate:
    """Σ numerators / Σ denominators with its interval (NaN without resamples)."""
    value = float(_ratio(numerators.sum(0), denominators.sum(0)))
    used = int((denominators > 0).any(1).sum())
    if not resamples or used == 0:
        return Estimate(value, examples=used)
    low, high = _quantiles(_resampled(numerators, denominators, resamples, seed), level)
    return Estimate(value, low, high, used)


def difference(
    first: tuple[np.ndarray, np.ndarray],
    second: tuple[np.ndarray, np.ndarray],
    level: float,
    resamples: int,
    seed: int,
) -> tuple[Estimate, float]:
    """first - second with interval, and a two-sided p. Only examples that both have count.

    Resamples of a few differences of one sign never cross 0, however few they are. By chance n differences have one
    sign with probability 2^(1 - n): p is never less than that.
    """
    both = (first[1] > 0).any(1) & (second[1] > 0).any(1)
    if not both.any():
        return Estimate(float("nan")), float("nan")
    (a, b), (c, d) = (tuple(part[both] for part in side) for side in (first, second))
    value = float(_ratio(a.sum(0), b.sum(0)) - _ratio(c.sum(0), d.sum(0)))
    drawn = _resampled(a, b, resamples, seed) - _resampled(c, d, resamples, seed)
    low, high = _quantiles(drawn, level)
    tail = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    count = int(both.sum())
    return Estimate(value, low, high, count), min(1.0, max(2 * (tail + 1) / (len(drawn) + 1), 2.0 ** (1 - count)))


def means(rows: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Means of resampled rows: (resample, column)."""
    return np.asarray(_weights(len(rows), resamples, seed) @ rows / len(rows))


def _quantiles(values: np.ndarray, level: float) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    if not known.size:
        return float("nan"), float("nan")
    low, high = np.quantile(known, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)
