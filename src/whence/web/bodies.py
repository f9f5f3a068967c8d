"""Bodies of requests: taken in against the clock and onto the disk, measured in bytes, then parsed in a thread.

A few bytes of JSON can cost a thousand times their size once they are objects: 13 MB of `{}` made 18 GB of errors.
So its lists, keys and depth are counted in the bytes, where counting is cheap, and too many are never parsed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from tempfile import SpooledTemporaryFile
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import Receive

from whence.web.refusals import ApiError, not_json
from whence.web.settings import Limits

__all__ = ["BODY", "Body", "JsonRoute", "parsed", "taken"]

Body = SpooledTemporaryFile[bytes]
BODY = "whence.body"
"""The scope's key for a body that was taken in."""
IN_MEMORY = 256 * 1024
"""Bytes of a body beyond which it waits on the disk for the rest of it."""
DEEPEST = 8
LONGEST_NUMBER = 1000
"""Characters. Python needs a time that grows with the square to read a number."""
CLOSE = {"Connection": "close"}
"""What is left of a body would be read as the next request."""

# a string without an end is taken as a string: json says what is wrong with it, and nothing is read twice
_PIECES = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|[\[{]|[\]}]|,|[^\s"\[\]{},:]++', re.DOTALL)


async def taken(headers: Headers, receive: Receive, limits: Limits) -> Body:
    """The body, up to the limit whatever its length is said to be, and in time however slowly it comes."""
    said = headers.get("content-length", "")
    if said.isdecimal() and (len(said) > 15 or int(said) > limits.body_bytes):
        raise _too_large(limits)
    body: Body = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 – whoever asked for the body closes it
    try:
        async with asyncio.timeout(limits.body_seconds):
            await _fill(body, receive, limits)
    except TimeoutError:
        body.close()
        raise ApiError(
            408, "too_late", f"The request was not sent within {limits.body_seconds:g} seconds, the limit here.",
            "Send it again, all at once.", CLOSE,
        ) from None  # fmt: skip
    except BaseException:
        body.close()
        raise
    return body


async def _fill(body: Body, receive: Receive, limits: Limits) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError(499, "left", "The client left before it had sent everything.")
        part = message.get("body", b"")
        size += len(part)
        if size > limits.body_bytes:
            raise _too_large(limits)
        body.write(part)
        more = message.get("more_body", False)


def _too_large(limits: Limits) -> ApiError:
    return ApiError(
        413, "too_large", f"The request is larger than {limits.body_bytes:,} bytes, the limit of this server.",
        "Send a shorter text, a smaller image or a shorter sound; GET /api/info has the limits.", CLOSE,
    )  # fmt: skip


def parsed(raw: bytes, items: int) -> Any:
    """The value in a body of JSON, with `items` values at most.

    >>> parsed(b'{"targets": [1, 2]}', 3)
    {'targets': [1, 2]}
    """
    _measure(raw, items)
    try:
        return json.loads(raw.decode())
    except (ValueError, RecursionError):
        raise not_json() from None


def _measure(raw: bytes, items: int) -> None:
    """Refuse what would be large once it is parsed, from the bytes alone."""
    count = depth = 0
    for match in _PIECES.finditer(raw):
        first = raw[match.start()]
        if first in b"[{":
            depth, count = depth + 1, count + 1
        elif first in b"]}":
            depth -= 1
        elif first in b",":
            count += 1
        elif first not in b'"' and match.end() - match.start() > LONGEST_NUMBER:
            raise ApiError(422, "too_long", f"A number has more than {LONGEST_NUMBER:,} digits.", "Send a shorter one.")
        if depth > DEEPEST:
            raise ApiError(422, "too_deep", f"Lists lie in lists, {DEEPEST} deep and more.", "See /api/docs.")
        if count > items:
            raise ApiError(422, "too_many", f"There are more than {items:,} values in the request.", "Send fewer.")


_parsing = ThreadPoolExecutor(1, thread_name_prefix="whence-parse")
"""One at a time: bodies that wait for it are still on the disk."""


class JsonRoute(APIRoute):
    """An address whose body FastAPI is handed as parsed JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            limits: Limits = request.app.state.limits
            loop = asyncio.get_running_loop()
            value = await loop.run_in_executor(_parsing, _read, request.scope[BODY], limits.items)
            return await handle(_Parsed(request, value))

        return handled


def _read(body: Body, items: int) -> Any:
    with body:
        body.seek(0)
        return parsed(body.read(), items)


class _Parsed(Request):
    """A request whose body was parsed elsewhere."""

    def __init__(self, request: Request, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._value = value

    async def body(self) -> bytes:
        return b"parsed"

    async def json(self) -> Any:
        return self._value
