"""How much of a time a GPU was at work, as `nvidia-smi` tells it: of all processes, ours and those that we start."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterable

__all__ = ["Busy"]

EVERY = 200
"""Milliseconds from look to look: each tells of about as long before it."""
ASK = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--id=0", f"--loop-ms={EVERY}"]


class Busy:
    """Looks at the first GPU while its block runs; without `nvidia-smi` it sees nothing.

    with Busy() as busy:
        work()
    busy.between(begin, end)  # of time.perf_counter()
    """

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []
        self._asked: subprocess.Popen[str] | None = None

    def __enter__(self) -> Busy:
        command = shutil.which("nvidia-smi")
        if command is not None:
            self._asked = subprocess.Popen([command, *ASK], stdout=subprocess.PIPE, text=True)
            self._reader = threading.Thread(target=self._read, args=(self._asked.stdout,), daemon=True)
            self._reader.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._asked is not None:
            self._asked.terminate()
            self._reader.join()
            self._asked.wait()

    def _read(self, said: Iterable[str]) -> None:
        for line in said:
            if line.strip().isdigit():
                self.seen.append((time.perf_counter(), int(line) / 100))

    def between(self, begin: float, end: float) -> float | None:
        """The share of this time in which some kernel ran; None where nobody looked."""
        shares = [share for at, share in self.seen if begin <= at <= end]
        return sum(shares) / len(shares) if shares else None
