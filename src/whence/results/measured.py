"""What metrics measured: one explanation, and all of a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whence.results.bootstrap import estimate

__all__ = ["Axis", "Measured", "Measurement"]


class Measurement(NamedTuple):
    """What a metric says of one explanation: mean_k numerator_k / denominator_k.

    Most metrics are one number over 1. Those that are ratios over a whole data set (mIoU) keep both parts, so that sums
    are divided by sums. A denominator of 0 says that the metric does not apply to this example.
    """

    numerators: tuple[float, ...]
    denominators: tuple[float, ...] = (1.0,)
    curve: tuple[float, ...] = ()

    @classmethod
    def missing(cls) -> Measurement:
        return cls((0.0,), (0.0,))

    @property
    def value(self) -> float:
        return estimate(np.array([self.numerators]), np.array([self.denominators])).value


@dataclass(frozen=True, eq=False)
class Measured:
    """One method under one metric: a row per example."""

    numerators: np.ndarray
    denominators: np.ndarray
    curves: np.ndarray | None = None
    """(example, point), for examples that have a curve."""

    @classmethod
    def of(cls, rows: Sequence[Measurement]) -> Measured:
        width = max(len(r.numerators) for r in rows)
        curves = [r.curve for r in rows if r.curve]
        same = len({len(c) for c in curves}) == 1
        return cls(
            np.array([_wide(r.numerators, width) for r in rows], dtype=np.float64),
            np.array([_wide(r.denominators, width) for r in rows], dtype=np.float64),
            np.array(curves, dtype=np.float64) if same else None,
        )

    def values(self) -> np.ndarray:
        """One value per example; NaN where the metric does not apply."""
        counted = self.denominators > 0
        shares = np.divide(self.numerators, self.denominators, out=np.zeros_like(self.numerators), where=counted)
        number = counted.sum(1)
        return np.where(number > 0, shares.sum(1) / np.maximum(number, 1), np.nan)


def _wide(values: tuple[float, ...], width: int) -> tuple[float, ...]:
    return values if len(values) == width else (0.0,) * width


class Axis(NamedTuple):
    """The points of a metric's curves and what they are."""

    points: tuple[float, ...]
    x: str
    y: str
