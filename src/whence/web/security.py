"""What every request passes before it is looked at, and what every answer carries."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.web.refusals import ApiError, answer, logged

__all__ = ["CONTENT_POLICY", "Guard"]

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' data:",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Refuses unknown hosts, large bodies and bodies that are not JSON; turns faults into an answer without details.

    Other sites' pages can send forms and plain text here without asking, but not JSON: for that browsers ask first,
    and as no answer of ours allows it (there are no CORS headers) they stop.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str] | None, body_bytes: int) -> None:
        self.app, self.body_bytes = app, body_bytes
        self.hosts = None if hosts is None else {h.lower() for h in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            replayed = await self._let_in(scope, receive)
            await self.app(scope, replayed, with_headers)
        except ApiError as error:
            await answer(error)(scope, receive, with_headers)
        except Exception as error:
            failure = logged(error, f"{scope['method']} {scope['path']!r}")
            if started:
                raise
            await answer(failure)(scope, receive, with_headers)

    async def _let_in(self, scope: Scope, receive: Receive) -> Receive:
        headers = Headers(scope=scope)
        if self.hosts is not None and _host(headers.get("host", "")) not in self.hosts:
            raise ApiError(
                421,
                "unknown_host",
                "This server does not go by that name.",
                f"Use {' or '.join(sorted(self.hosts))}, or start it with --allow-host NAME.",
            )
        if scope["method"] not in ("POST", "PUT", "PATCH", "DELETE"):
            return receive
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(415, "not_json", "The body must be JSON.", "Send the header Content-Type: application/json.")
        return await self._read(headers, receive)

    async def _read(self, headers: Headers, receive: Receive) -> Receive:
        """Take in the body, up to the limit whatever its length is said to be, and hand it on in one piece."""
        said = headers.get("content-length", "")
        if said.isdigit() and int(said) > self.body_bytes:
            raise self._too_large()
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ApiError(499, "left", "The client left before it had sent everything.")
            part = message.get("body", b"")
            size += len(part)
            if size > self.body_bytes:
                raise self._too_large()
            parts.append(part)
            more = message.get("more_body", False)
        first: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def replayed() -> Message:
            return first.pop() if first else await receive()

        return replayed

    def _too_large(self) -> ApiError:
        return ApiError(
            413,
            "too_large",
            f"The request is larger than {self.body_bytes:,} bytes, the limit of this server.",
            "Send a shorter text, a smaller image or a shorter sound; GET /api/info has the limits.",
        )


def _host(header: str) -> str:
    """The name in a Host header, without the port and without the brackets of IPv6.

    >>> _host("[::1]:8000"), _host("LocalHost:8000"), _host("localhost")
    ('::1', 'localhost', 'localhost')
    """
    name = header.rpartition("]")[0].lstrip("[") if header.startswith("[") else header.partition(":")[0]
    return name.lower()
