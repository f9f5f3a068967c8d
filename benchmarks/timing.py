"""Times as ratios to a unit that runs before and after each measurement.

Other work on the machine slows everything that runs at the time. A method is therefore compared with the unit right
beside it, and medians are taken over rounds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

__all__ = ["Series", "alternated", "paired", "seconds"]


@dataclass
class Series:
    """Measurements of one method, a ratio to the unit for each round."""

    ratios: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(self.ratios)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({min(self.ratios):.2f}–{max(self.ratios):.2f})"


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes. Garbage is collected before, not during."""
    gc.collect()
    gc.disable()
    try:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin
    finally:
        gc.enable()


def alternated(
    unit: Callable[[], object], methods: Mapping[str, Callable[[], object]], rounds: int, *, warm: bool = True
) -> dict[str, Series]:
    """All methods in turn, each between two runs of the unit; the order is turned around every other round."""
    for work in (unit, *(methods.values() if warm else ())):
        work()
    series = {name: Series() for name in methods}
    for number in range(rounds):
        order = list(methods) if number % 2 == 0 else list(reversed(methods))
        before = seconds(unit)
        for name in order:
            spent, after = seconds(methods[name]), seconds(unit)
            series[name].seconds.append(spent)
            series[name].ratios.append(2 * spent / (before + after))
            before = after
    return series


def paired(first: Callable[[], object], second: Callable[[], object], rounds: int) -> Series:
    """second / first, taken in turn: first, second, second, first."""
    first(), second()
    series = Series()
    for _ in range(rounds):
        a, b, c, d = seconds(first), seconds(second), seconds(second), seconds(first)
        series.ratios.append((b + c) / (a + d))
        series.seconds.append((b + c - a - d) / 2)
    return series
