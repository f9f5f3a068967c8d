"""A progress bar that shows itself only when work takes longer than a moment, and only to people."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count, tee
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from whence import cancel

__all__ = ["heard", "showing", "steps", "track"]

T = TypeVar("T")
MOMENT = 1.0
_hushed: ContextVar[bool] = ContextVar("hushed", default=False)
"""Whether a bar around this one is drawn, or was turned off: bars inside it stay away."""
_shown: ContextVar[bool | None] = ContextVar("shown", default=False)
"""What whoever called says of `steps`: nothing is drawn unless somebody says."""
Listener = Callable[[int, int], None]
"""Told how many units are done, of how many."""
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Everything tracked inside tells `listener` how far it is; work of a single step has nothing to tell.

    >>> told = []
    >>> with heard(lambda done, total: told.append((done, total))):
    ...     for _ in track("ab", "letters", 2, show=False):
    ...         pass
    >>> told
    [(1, 2), (2, 2)]
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def _told(items: Iterable[T], total: int, counts: Iterator[int] | None) -> Iterator[T]:
    """The same items; the listener around them, if there is one, hears how far they are."""
    listener = _listener.get()
    if listener is None or total < 2:
        yield from items
        return
    done = 0
    for item in items:
        yield item
        done += next(counts) if counts is not None else 1
        listener(done, total)


@contextmanager
def showing(show: bool | None) -> Iterator[None]:
    """`steps` inside are drawn: forced on or off, or (None) to people when they take longer than a moment."""
    before = _shown.set(show)
    try:
        yield
    finally:
        _shown.reset(before)


def steps(what: str, total: int) -> Generator[int, None, None]:
    """To be asked for the next number whenever a step is done, and closed in the end."""
    return track(count(), what, total, show=_shown.get())


def track(
    items: Iterable[T], what: str, total: int, sizes: Iterable[int] | None = None, *, show: bool | None = None
) -> Generator[T, None, None]:
    """Yield `items`, drawing progress on standard error once a second has passed.

    `sizes` says how many units each item stands for; `show` forces the bar on or off. Cancelled work stops here.
    """
    counts, heard_counts = tee(sizes) if sizes is not None else (None, None)
    items = _told(items, total, heard_counts)
    console = Console(stderr=True)
    before = _hushed.get()
    if show is False or (show is None and (before or not console.is_terminal)):
        _hushed.set(before or show is False)
        try:
            for item in items:
                cancel.check()
                yield item
        finally:
            _hushed.set(before)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(what, total=total)
    start, running = time.monotonic(), False
    try:
        for item in items:
            cancel.check()
            yield item
            bar.advance(task, next(counts) if counts is not None else 1)
            if not running and time.monotonic() - start > MOMENT:
                bar.start()
                running = True
                _hushed.set(True)
    finally:
        _hushed.set(before)
        if running:
            bar.stop()
