"""A queue with back-pressure: a few jobs run in threads, a few wait, the rest is told to come back later.

Jobs that wait and can be done in one go are; and no client's jobs keep those of the others out.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import Request

from whence import cancel
from whence.web.refusals import ApiError

__all__ = ["Jobs", "client_of", "gone", "while_connected"]

T = TypeVar("T")
DONE, CANCELLED, TIMED_OUT, REFUSED = "done", "cancelled", "timed_out", "refused"
PATIENCE = 5
"""A job may wait so many times as long as one may run: whatever keeps a thread busy, each request is answered."""
LINGER = 0.01
"""Seconds that a job waits for others, where several were done in one go before: their clients come back together."""
Work = Callable[[list[Any]], list[Any]]
"""From what several jobs are about to what each of them gives; an exception, where that is what became of it."""


@dataclass(eq=False)
class _Job:
    work: Work
    item: Any
    key: Hashable | None
    """Jobs of one key can be done in one go; None: by itself."""
    client: str
    begun: asyncio.Future[None]
    result: asyncio.Future[Any]
    batch: _Batch | None = None


@dataclass(eq=False)
class _Batch:
    """Jobs that are done in one go. It is stopped when all have left."""

    jobs: list[_Job]
    token: cancel.Token = field(default_factory=cancel.Token)

    def leave(self, job: _Job, reason: str) -> None:
        self.jobs.remove(job)
        if not self.jobs:
            self.token.cancel(reason)


class Jobs:
    """Runs work off the event loop. A job that times out or that nobody waits for stops at its next `cancel.check`.

    A place is taken until the thread is really free, not until its client is gone.
    """

    def __init__(self, workers: int, room: int, seconds: float, together: int = 1) -> None:
        self.workers, self.room, self.seconds, self.together = workers, room, seconds, together
        self.running = 0
        self.counts = dict.fromkeys((DONE, CANCELLED, TIMED_OUT, REFUSED), 0)
        self._queue: list[_Job] = []
        self._served: list[str] = []
        """Clients that wait and were served, the last one last."""
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="whence-job")
        self._tokens: set[cancel.Token] = set()
        self._mean = 1.0
        self._lately = 1
        """Jobs in the last batch."""
        self.stopped = False

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def info(self) -> dict[str, int]:
        return {"running": self.running, "waiting": self.waiting, **self.counts}

    async def run(self, work: Callable[[], T], *, client: str = "") -> T:
        """The result of `work`, from a thread. Cancel the coroutine to cancel the work."""
        return await self.share(lambda _: [work()], None, None, client=client)

    async def share(self, work: Callable[[list[Any]], list[T]], item: Any, key: Hashable | None, *, client: str) -> T:
        """What `work` gives for `item`; it is asked for those of all jobs of the same key that wait at the time."""
        self._admit(client)
        loop = asyncio.get_running_loop()
        job = _Job(work, item, key, client, loop.create_future(), loop.create_future())
        self._queue.append(job)
        if key is not None and self.waiting < self._lately:
            loop.call_later(LINGER, self._start)
        else:
            self._start()
        try:
            begun, _ = await asyncio.wait({job.begun}, timeout=PATIENCE * self.seconds)
            if not begun:
                self._queue.remove(job)
                raise self._busy()
            job.begun.result()
            finished, _ = await asyncio.wait({job.result}, timeout=self.seconds)
        except asyncio.CancelledError:
            self._leave(job, "the client left", CANCELLED)
            raise
        if not finished:
            self._leave(job, "the time limit", TIMED_OUT)
            raise ApiError(
                504,
                "too_slow",
                f"This took longer than {self.seconds:g} seconds, the limit of this server, and was stopped.",
                "Send a shorter text, fewer methods or targets, or methods that are not marked slow.",
            )
        try:
            result: T = job.result.result()
        except cancel.Cancelled:
            raise _ending() from None
        self.counts[DONE] += 1
        return result

    def _leave(self, job: _Job, reason: str, outcome: str) -> None:
        self.counts[outcome] += 1
        if job.batch is not None:
            job.batch.leave(job, reason)
        elif job in self._queue:
            self._queue.remove(job)

    def _admit(self, client: str) -> None:
        """Refuse what there is no room for; whoever has most waiting makes room for those with less."""
        if self.stopped:
            raise _ending()
        if self.running < self.workers or self.waiting < self.room:
            return
        held = Counter(job.client for job in self._queue)
        most = max(held, key=lambda name: held[name], default=client)
        if held[most] <= held[client] + 1:
            raise self._busy()
        last = next(job for job in reversed(self._queue) if job.client == most)
        self._queue.remove(last)
        _tell(last.begun, self._busy())

    def _busy(self) -> ApiError:
        self.counts[REFUSED] += 1
        wait = math.ceil(min(60.0, max(1.0, self._mean * (self.waiting + 1) / self.workers)))
        return ApiError(
            429,
            "busy",
            f"The server is busy: {self.running} running, {self.waiting} waiting.",
            f"Try again in {wait} s.",
            {"Retry-After": str(wait)},
        )

    def _start(self) -> None:
        """Give free threads what waits."""
        while self._queue and self.running < self.workers:
            first = min(self._queue, key=self._turn)
            alike = [job for job in self._queue if job.key == first.key and job.key is not None and job is not first]
            self._run(_Batch([first, *alike[: self.together - 1]]))

    def _turn(self, job: _Job) -> int:
        """Clients take turns: those not served yet, then those whose turn is longest ago."""
        return self._served.index(job.client) if job.client in self._served else -1

    def _run(self, batch: _Batch) -> None:
        loop = asyncio.get_running_loop()
        begun, jobs, token = loop.time(), tuple(batch.jobs), batch.token
        self._lately = len(jobs)
        for job in jobs:
            job.batch = batch
            _tell(job.begun, None)
            self._queue.remove(job)
        left = {job.client for job in self._queue}
        last = dict.fromkeys(job.client for job in jobs)
        self._served = [name for name in self._served if name in left and name not in last] + list(last)
        self.running += 1
        self._tokens.add(token)
        if self.stopped:
            token.cancel("the server is ending")

        def work() -> list[Any]:
            with cancel.scope(token):
                cancel.check()
                return jobs[0].work([job.item for job in jobs])

        def ended(future: asyncio.Future[list[Any]]) -> None:
            self.running -= 1
            self._tokens.discard(token)
            self._mean += 0.2 * (loop.time() - begun - self._mean)
            fault = asyncio.CancelledError() if future.cancelled() else future.exception()
            for job, made in zip(jobs, [fault] * len(jobs) if fault else future.result(), strict=True):
                _tell(job.result, made)
            self._start()

        loop.run_in_executor(self._pool, work).add_done_callback(ended)

    def start(self) -> None:
        """Take work again after `stop`."""
        self.stopped = False

    def stop(self) -> None:
        """End: what runs is cancelled, what comes is refused. Safe to call from a signal handler."""
        self.stopped = True
        for token in tuple(self._tokens):
            token.cancel("the server is ending")


def _tell(future: asyncio.Future[Any], made: Any) -> None:
    if future.done():  # whoever waited for it was cancelled a moment ago
        return
    if isinstance(made, BaseException):
        future.set_exception(made)
        future.exception()  # nobody may be left to ask for it
    else:
        future.set_result(made)


def _ending() -> ApiError:
    return ApiError(503, "ending", "The server is ending.", "Start it again, then try again.")


def client_of(request: Request) -> str:
    """Who asks: an address; that of a proxy's client where the proxy is on this machine and says it."""
    return request.client.host if request.client else ""


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client goes away."""
    job = asyncio.ensure_future(work)
    left = asyncio.ensure_future(gone(request))
    try:
        await asyncio.wait({job, left}, return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise ApiError(499, "left", "The client left before the answer was ready.")
        return job.result()
    finally:
        left.cancel()
        job.cancel()
        await asyncio.gather(left, job, return_exceptions=True)


async def gone(request: Request) -> None:
    """Ends when the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
