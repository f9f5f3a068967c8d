"""Stop work that nobody waits for any more.

Loops over model passes call `check`, which raises in a scope whose token was cancelled and costs next to nothing
elsewhere. Threads have no way to be stopped from outside, so they have to ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Cancelled", "Token", "check", "scope"]


class Cancelled(BaseException):
    """The work in this scope is no longer wanted. Not an `Exception`: a handler for bad rows must not swallow it."""


class Token:
    """Says whether work is still wanted. Any thread may cancel it.

    >>> token = Token()
    >>> with scope(token):
    ...     check()
    >>> token.cancel("the client left")
    >>> with scope(token):
    ...     check()
    Traceback (most recent call last):
    whence.cancel.Cancelled: the client left
    """

    def __init__(self) -> None:
        self.reason: str | None = None

    @property
    def cancelled(self) -> bool:
        return self.reason is not None

    def cancel(self, reason: str = "cancelled") -> None:
        self.reason = self.reason or reason


_current: ContextVar[Token | None] = ContextVar("token", default=None)


@contextmanager
def scope(token: Token) -> Iterator[None]:
    """Everything called inside stops once `token` is cancelled."""
    before = _current.set(token)
    try:
        yield
    finally:
        _current.reset(before)


def check() -> None:
    """Raise `Cancelled` if the work around this call was cancelled."""
    token = _current.get()
    if token is not None and token.reason is not None:
        raise Cancelled(token.reason)
