"""How much faster two processes explain a data set than one: `OMP_NUM_THREADS=1 python -m benchmarks.workers`.

A core for each and nothing else on the machine, or the figures say nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import whence
from benchmarks.rows import made_up

ROWS = 12_288
SHARD = 512


def timed(rows: list[str], workers: int) -> tuple[float, float]:
    """Seconds in all, and rows a second from when every process has reported until the last report."""
    told: list[tuple[float, int]] = []

    def progress(done: int, total: int | None, rate: float) -> None:
        told.append((time.perf_counter(), done))

    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        out = Path(folder) / "out"
        whence.run(rows, model="sentiment", out=out, workers=workers, rows_per_shard=SHARD, progress=progress)
        seconds = time.perf_counter() - begun
    (first, at), (last, done) = told[2 * workers], told[-1]
    return seconds, (done - at) / (last - first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    rows = made_up(chosen.rows)
    print(f"{chosen.rows:,} sentences, load of the machine {os.getloadavg()[0]:.1f}")
    print("| processes | seconds in all | rows a second, once running |\n|---|---|---|")
    for _ in range(chosen.rounds):
        for workers in (1, 2):
            seconds, rate = timed(rows, workers)
            print(f"| {workers} | {seconds:.1f} | {rate:.0f} |", flush=True)


if __name__ == "__main__":
    main()
