"""Progress of a run: rows, rate and time left. A bar for people, a line now and then for a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from whence.viz.terminal import printable

__all__ = ["Meter", "left", "speaker"]

LINE_EVERY = 10.0


def left(done: int, total: int | None, rate: float) -> str:
    """Time left, in words.

    >>> left(100, 1000, 5.0)
    '3 min left'
    """
    if total is None or rate <= 0:
        return "time left unknown"
    return f"{duration((total - done) / rate)} left"


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(7300)
    '2.0 h'
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} days"


def speaker(show: bool | Callable[[int, int | None, float], Any] | None) -> Callable[[str], None]:
    """Says what a run is about to do before its first row: a line on standard error, to those who want progress."""
    begun = time.monotonic()
    is_heard = show is True or (show is None and Console(stderr=True).is_terminal)

    def say(what: str) -> None:
        if is_heard:
            print(f"{time.monotonic() - begun:5.1f} s  {printable(what)}", file=sys.stderr, flush=True)

    return say


class Meter:
    """Counts rows. `show` is True, False, None (only to people) or a function of (done, total, rows per second)."""

    def __init__(self, total: int | None, done: int, show: bool | Callable[[int, int | None, float], Any] | None):
        self.total, self.done, self.begun_with = total, done, done
        self.begin = self.said = time.monotonic()
        console = Console(stderr=True)
        self._tell = show if callable(show) else None
        drawn = not callable(show) and show is not False and console.is_terminal
        self._bar = self._made(console) if drawn else None
        self._task = self._bar.add_task("", total=total, completed=done, rate="") if self._bar else None
        self._lines = show is True and self._bar is None

    def _made(self, console: Console) -> Progress:
        return Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begin

    @property
    def rate(self) -> float:
        """Rows per second of this process."""
        return (self.done - self.begun_with) / max(self.seconds, 1e-9)

    def add(self, rows: int) -> None:
        self.done += rows
        if self._tell:
            self._tell(self.done, self.total, self.rate)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self.done, rate=f"{self.rate:.1f} rows/s")
        if self._lines and time.monotonic() - self.said > LINE_EVERY:
            self.said = time.monotonic()
            of = "" if self.total is None else f" of {self.total}"
            print(f"{self.done}{of} rows, {self.rate:.1f}/s, {left(self.done, self.total, self.rate)}", file=sys.stderr)

    def __enter__(self) -> Meter:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()
