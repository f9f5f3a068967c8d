"""A queue with back-pressure: a few jobs run in threads, a few wait, the rest is told to come back later."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request

from whence import cancel
from whence.web.refusals import ApiError

__all__ = ["Jobs", "while_connected"]

T = TypeVar("T")
DONE, CANCELLED, TIMED_OUT, REFUSED = "done", "cancelled", "timed_out", "refused"


class Jobs:
    """Runs work off the event loop. A job that times out or that nobody waits for stops at its next `cancel.check`.

    A place is taken until the thread is really free, not until its client is gone.
    """

    def __init__(self, workers: int, room: int, seconds: float) -> None:
        self.workers, self.room, self.seconds = workers, room, seconds
        self.running = self.waiting = 0
        self.counts = dict.fromkeys((DONE, CANCELLED, TIMED_OUT, REFUSED), 0)
        self._places = asyncio.Semaphore(workers)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="whence-job")
        self._tokens: set[cancel.Token] = set()
        self._mean = 1.0
        self._stopped = False

    def info(self) -> dict[str, int]:
        return {"running": self.running, "waiting": self.waiting, **self.counts}

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, from a thread. Cancel the coroutine to cancel the work."""
        self._admit()
        self.waiting += 1
        try:
            await self._places.acquire()
        except asyncio.CancelledError:
            self.counts[CANCELLED] += 1
            raise
        finally:
            self.waiting -= 1
        token = cancel.Token()
        future = self._started(work, token)
        try:
            finished, _ = await asyncio.wait({future}, timeout=self.seconds)
        except asyncio.CancelledError:
            token.cancel("the client left")
            self.counts[CANCELLED] += 1
            raise
        if not finished:
            token.cancel("the time limit")
            self.counts[TIMED_OUT] += 1
            raise ApiError(
                504,
                "too_slow",
                f"This took longer than {self.seconds:g} seconds, the limit of this server, and was stopped.",
                "Send a shorter text, fewer methods or targets, or methods that are not marked slow.",
            )
        try:
            result = future.result()
        except cancel.Cancelled:
            raise _ending() from None
        self.counts[DONE] += 1
        return result

    def _admit(self) -> None:
        if self._stopped:
            raise _ending()
        if self._places.locked() and self.waiting >= self.room:
            self.counts[REFUSED] += 1
            wait = math.ceil(min(60.0, max(1.0, self._mean * (self.waiting + 1) / self.workers)))
            raise ApiError(
                429,
                "busy",
                f"The server is busy: {self.running} running, {self.waiting} waiting.",
                f"Try again in {wait} s.",
                {"Retry-After": str(wait)},
            )

    def _started(self, work: Callable[[], T], token: cancel.Token) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self.running += 1
        self._tokens.add(token)
        if self._stopped:
            token.cancel("the server is ending")

        def scoped() -> T:
            with cancel.scope(token):
                cancel.check()
                return work()

        def ended(future: asyncio.Future[T]) -> None:
            self.running -= 1
            self._tokens.discard(token)
            self._places.release()
            self._mean += 0.2 * (loop.time() - begun - self._mean)
            if not future.cancelled():
                future.exception()  # nobody may be left to ask for it

        try:
            future = loop.run_in_executor(self._pool, scoped)
        except BaseException:
            self.running -= 1
            self._places.release()
            raise
        future.add_done_callback(ended)
        return future

    def start(self) -> None:
        """Take work again after `stop`."""
        self._stopped = False

    def stop(self) -> None:
        """End: what runs is cancelled, what comes is refused. Safe to call from a signal handler."""
        self._stopped = True
        for token in tuple(self._tokens):
            token.cancel("the server is ending")


def _ending() -> ApiError:
    return ApiError(503, "ending", "The server is ending.", "Start it again, then try again.")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client goes away."""
    job = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({job, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise ApiError(499, "left", "The client left before the answer was ready.")
        return job.result()
    finally:
        gone.cancel()
        job.cancel()
        await asyncio.gather(gone, job, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
