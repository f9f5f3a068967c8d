"""Peak memory of one explanation, each in a process of its own: `python -m benchmarks.memory METHOD FAMILY B L LAYERS`.

The peak is the high-water mark of the process (VmHWM). `resource.getrusage` would report the same number, but a
process that was started from a larger one begins with the mark of its parent.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.methods import by_hand, plain_forward, relevance
from benchmarks.workloads import Workload, workload

__all__ = ["METHODS", "growth", "peak_growth", "status"]

METHODS: dict[str, Callable[[Workload], object]] = {
    "plain forward": plain_forward,
    "Gradient×Input by hand": by_hand,
    **{
        f"{preset}, {receipt}": partial(relevance, preset=preset, receipt=receipt)
        for preset in ("ah_ln", "exact")
        for receipt in ("short", "full")
    },
}


def growth(method: str, family: str, batch: int, length: int, layers: int) -> float:
    """MiB that the process grew by at its peak, over what it held with the model loaded."""
    warm = workload(family, 1, 2, layers=1)
    METHODS[method](warm)
    work = workload(family, batch, length, layers=layers)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of loading
    before = status("VmRSS")
    METHODS[method](work)
    return (status("VmHWM") - before) / 1024


def status(field: str) -> int:
    """A field of /proc/self/status, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def peak_growth(method: str, family: str, batch: int, length: int, layers: int, repeats: int = 3) -> float:
    """The median of `growth` over fresh processes."""
    command = [sys.executable, "-m", "benchmarks.memory", method, family, *map(str, (batch, length, layers))]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(repeats)]
    return median(float(out.split()[-1]) for out in runs)


if __name__ == "__main__":
    print(growth(*sys.argv[1:3], *map(int, sys.argv[3:])))
