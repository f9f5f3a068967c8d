"""Answers in lines of JSON, each sent as soon as it is known. A client that leaves cancels the work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse

from whence.web.jobs import Jobs, client_of, gone
from whence.web.refusals import ApiError, logged

__all__ = ["TYPE", "lines"]

TYPE = "application/x-ndjson"
END = None


async def lines(request: Request, jobs: Jobs, work: Callable[[Callable[[dict[str, Any]], None]], None]) -> Any:
    """The events that `work` tells, as a response. What is refused before the first event has a status of its own."""
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[str | None] = asyncio.Queue()

    def tell(event: dict[str, Any]) -> None:  # from the thread of the job
        line = json.dumps(event, ensure_ascii=False, allow_nan=False)
        loop.call_soon_threadsafe(told.put_nowait, line)

    job = asyncio.ensure_future(jobs.run(lambda: work(tell), client=client_of(request)))
    job.add_done_callback(lambda _: told.put_nowait(END))
    left = asyncio.ensure_future(gone(request))
    left.add_done_callback(lambda _: job.cancel())  # also where nobody ever asks for the body
    try:
        first = await _next(told, left)
    except BaseException:
        left.cancel()
        job.cancel()
        raise
    if first is END:
        left.cancel()
        job.result()  # what it was refused for

    async def body() -> AsyncIterator[str]:
        line = first
        try:
            while line is not END:
                yield line + "\n"
                line = await _next(told, left)
            fault = None if job.cancelled() else job.exception()
            if fault is not None:
                error = fault if isinstance(fault, ApiError) else logged(fault, "a stream")
                body = {"code": error.code, "message": error.message, "hint": error.hint}
                yield json.dumps({"event": "error", "error": body}, ensure_ascii=False) + "\n"
        except ApiError:  # the client left: nobody reads this
            return
        finally:
            left.cancel()
            job.cancel()

    return StreamingResponse(body(), media_type=TYPE)


async def _next(told: asyncio.Queue[str | None], left: asyncio.Future[None]) -> str | None:
    """The next line; an error once the client is gone."""
    line = asyncio.ensure_future(told.get())
    either: set[asyncio.Future[Any]] = {line, left}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not line.done():
            raise ApiError(499, "left", "The client left before the answer was ready.")
        return line.result()
    finally:
        line.cancel()
