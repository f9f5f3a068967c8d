"""Times as ratios to a unit that runs before and after each measurement.

Other work on the machine slows everything that runs at the time. A method is therefore compared with the unit right
beside it, a measurement during which other processes took the cores is repeated a few times (the least disturbed one
counts), and medians are taken over rounds. Where the machine is never quiet, `use_clock("cpu")` counts processor time
on one thread instead: what others do then costs waiting, which is not counted.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

import torch

__all__ = ["Clock", "Sample", "Series", "alternated", "paired", "sample", "use_clock"]

Clock = Literal["wall", "cpu"]

QUIET = 0.05
"""The share of the cores that other processes may take before a measurement is repeated."""
TRIES = 4
_clock: Clock = "wall"


def use_clock(clock: Clock) -> None:
    """Wall time on all cores, or processor time on one thread (more threads would wait for each other in it)."""
    global _clock
    _clock = clock
    torch.set_num_threads(len(os.sched_getaffinity(0)) if clock == "wall" else 1)


class Sample(NamedTuple):
    """One run: how long it took, and the share of the cores that other processes had in that time."""

    seconds: float
    disturbed: float


@dataclass
class Series:
    """Measurements of one method: per round, the ratio to the unit, the time, and how disturbed they were."""

    ratios: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    disturbed: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(self.ratios)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({min(self.ratios):.2f}–{max(self.ratios):.2f})"


def sample(work: Callable[[], object]) -> Sample:
    """Run once. Garbage is collected before, not during."""
    gc.collect()
    gc.disable()
    try:
        busy, own, begin = _busy(), time.process_time(), time.perf_counter()
        work()
        spent, own = time.perf_counter() - begin, time.process_time() - own
        if _clock == "cpu":
            return Sample(own, 0.0)
        return Sample(spent, max(0.0, _busy() - busy - own) / (spent * len(os.sched_getaffinity(0))))
    finally:
        gc.enable()


def _busy() -> float:
    """Seconds that all cores together have worked since the machine started; 0 where the system does not say."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _idle, _wait, interrupts, soft, *_ = map(int, stat.read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def alternated(
    unit: Callable[[], object], methods: Mapping[str, Callable[[], object]], rounds: int, *, warm: bool = True
) -> dict[str, Series]:
    """All methods in turn, each between two runs of the unit; the order is turned around every other round."""
    for work in (unit, *(methods.values() if warm else ())):
        work()
    series = {name: Series() for name in methods}
    for number in range(rounds):
        before = sample(unit)
        for name in list(methods) if number % 2 == 0 else list(reversed(methods)):
            (before, spent, after), disturbed = _beside(unit, methods[name], before)
            series[name].ratios.append(2 * spent.seconds / (before.seconds + after.seconds))
            series[name].seconds.append(spent.seconds)
            series[name].disturbed.append(disturbed)
            before = after
    return series


def _beside(
    unit: Callable[[], object], method: Callable[[], object], before: Sample
) -> tuple[tuple[Sample, Sample, Sample], float]:
    """The unit, the method, the unit; the least disturbed of a few tries."""
    tries = []
    for _ in range(TRIES):
        triple = (before, sample(method), sample(unit))
        disturbed = max(part.disturbed for part in triple)
        tries.append((triple, disturbed))
        if disturbed <= QUIET:
            break
        before = triple[-1]
    return min(tries, key=lambda pair: pair[1])


def paired(first: Callable[[], object], second: Callable[[], object], rounds: int) -> Series:
    """second / first, taken in turn: first, second, second, first. `seconds` are the differences."""
    first(), second()
    series = Series()
    for _ in range(rounds):
        a, b, c, d = sample(first), sample(second), sample(second), sample(first)
        series.ratios.append((b.seconds + c.seconds) / (a.seconds + d.seconds))
        series.seconds.append((b.seconds + c.seconds - a.seconds - d.seconds) / 2)
        series.disturbed.append(max(part.disturbed for part in (a, b, c, d)))
    return series
