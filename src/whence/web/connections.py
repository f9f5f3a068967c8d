"""Connections: how many there may be, and how long one may take to say what it wants or to read its answer.

uvicorn waits without end for the head of a request and for a client that does not read; it can count connections, but
only refuses requests by that count, so that a few hundred that say nothing keep everybody else out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Literal

from uvicorn.protocols.http.h11_impl import H11Protocol

from whence.web.settings import Limits

__all__ = ["Connection"]


class Connection(H11Protocol):
    """One client's connection: ended if no whole head of a request comes in time, or nothing of an answer is read."""

    def __init__(self, *arguments: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.limits = limits
        self._head: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._unread_since = 0.0

    @property
    def idle(self) -> bool:
        """Whether there is no request that has begun."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def asks(self) -> bool:
        """Whether a whole request is here and being answered."""
        return not self.idle and not self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._began = self.loop.time()
        if len(self.connections) > self.limits.connections:
            self._room().transport.abort()
        self._watch()

    def _room(self) -> Connection:
        """Who has to go: of the client with most connections the oldest without a whole request, else this one."""
        here = [c for c in self.connections if isinstance(c, Connection) and not c.transport.is_closing()]
        held = Counter(c.who for c in here)
        half = [c for c in here if not c.asks]
        return max(half, key=lambda c: (held[c.who], -c._began), default=self)

    @property
    def who(self) -> str:
        return self.client[0] if self.client else ""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._began = self.loop.time()

    def _watch(self) -> None:
        """The clock runs from the first byte of a head, or from the start, until there is a whole one."""
        if not self.idle:
            self._stop("_head")
        elif self._head is None:
            self._head = self.loop.call_later(self.limits.head_seconds, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self._unread_since or self.loop.time()
        self._await_reader(self.unread)
        self._bound_unread()

    @property
    def unread(self) -> int:
        """Bytes of answers that this client has not taken."""
        return int(self.transport.get_write_buffer_size())

    def _bound_unread(self) -> None:
        """Answers are in memory until they are read: those of one client are not to fill it."""
        own = [c for c in self.connections if isinstance(c, Connection) and c.who == self.who and c.unread]
        own.sort(key=lambda c: c._unread_since, reverse=True)
        while len(own) > 1 and sum(c.unread for c in own) > self.limits.unread_bytes:
            own.pop().transport.abort()

    def _await_reader(self, unread: int) -> None:
        self._reading = self.loop.call_later(self.limits.body_seconds, self._look_at_reader, unread)

    def _look_at_reader(self, unread: int) -> None:
        """Who reads slowly may go on; `resume_writing` is called only once nearly all is read."""
        if (left := self.unread) < unread:
            self._await_reader(left)
        else:
            self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = 0.0
        self._stop("_reading")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop("_head")
        self._stop("_reading")
        super().connection_lost(exc)

    def _stop(self, clock: Literal["_head", "_reading"]) -> None:
        timer: asyncio.TimerHandle | None = getattr(self, clock)
        if timer is not None:
            timer.cancel()
        setattr(self, clock, None)
