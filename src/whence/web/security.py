"""What every request passes before it is looked at, and what every answer carries."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.web.bodies import BODY, CLOSE, Body, taken
from whence.web.door import Door
from whence.web.refusals import ApiError, answer, logged
from whence.web.settings import Limits

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
WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
OPEN = "/health"
"""Says that the server runs and nothing else, to anyone: what watches over it has neither its name nor a token."""


class Guard:
    """Refuses unknown hosts, requests without the token, and bodies that are large, slow or not JSON; turns faults into
    an answer without details.

    Other sites' pages can send forms and plain text here without asking, but not JSON: for that browsers ask first,
    and as no answer of ours allows it (there are no CORS headers) they stop.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str] | None, token: str | None, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.hosts = None if hosts is None else {h.lower() for h in hosts}
        self.door = None if token is None else Door(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False
        more = dict(HEADERS)

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers.update(more)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            more |= self._let_in(scope)
            if scope["method"] not in WITH_BODY:
                await self.app(scope, receive, with_headers)
                return
            with await self._body(scope, receive) as scope[BODY]:
                await self.app(scope, receive, with_headers)
        except ApiError as error:
            await answer(error)(scope, receive, with_headers)
        except Exception as error:
            failure = logged(error, f"{scope['method']} {scope['path']!r}")
            if started:
                raise
            await answer(failure)(scope, receive, with_headers)

    def _let_in(self, scope: Scope) -> dict[str, str]:
        """Refuse whoever has no business here; headers for the others' answers."""
        if scope["path"] == OPEN and scope["method"] not in WITH_BODY:
            return {}
        if self.hosts is not None and _host(Headers(scope=scope).get("host", "")) not in self.hosts:
            raise ApiError(
                421, "unknown_host", "This server does not go by that name.",
                "Use the address that it printed at its start, or start it with --allow-host NAME.", CLOSE,
            )  # fmt: skip
        return {} if self.door is None else self.door.let_in(scope)

    async def _body(self, scope: Scope, receive: Receive) -> Body:
        headers = Headers(scope=scope)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            hint = "Send the header Content-Type: application/json."
            raise ApiError(415, "not_json", "The body must be JSON.", hint, CLOSE)
        return await taken(headers, receive, self.limits)


def _host(header: str) -> str:
    """The name in a Host header, without the port and without the brackets of IPv6.

    >>> _host("[::1]:8000"), _host("LocalHost:8000"), _host("localhost")
    ('::1', 'localhost', 'localhost')
    """
    name = header.rpartition("]")[0].lstrip("[") if header.startswith("[") else header.partition(":")[0]
    return name.lower()
