"""A token instead of a login: whoever has it is let in."""

from __future__ import annotations

import hashlib
import secrets
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from whence.errors import InputError
from whence.web.bodies import CLOSE
from whence.web.refusals import ApiError

__all__ = ["Door", "new_token", "token_of"]

PAGE = "/"
"""The one address whose query may carry the token: a browser that came there has a cookie, and needs it no more."""
SHORTEST = 16


def new_token() -> str:
    """256 bits of chance."""
    return secrets.token_urlsafe(32)


def token_of(chosen: str | None, local: bool) -> str | None:
    """The token of a server, from what its user said: by default there is one unless it is at localhost.

    >>> token_of(None, local=True), token_of("none", local=False), token_of("a-token-of-my-own", local=True)
    (None, None, 'a-token-of-my-own')
    """
    chosen = chosen or ("none" if local else "new")
    if chosen in ("none", "new"):
        return None if chosen == "none" else new_token()
    if len(chosen) < SHORTEST or not (chosen.isascii() and chosen.isprintable()) or set(chosen) & set(' ";,\\'):
        raise InputError(
            f"a token has {SHORTEST} letters, digits or signs at least, without spaces, quotes, commas, semicolons and "
            "backslashes: type  --token new  for one"
        )
    return chosen


class Door:
    """Lets in who has the token: in a header, `Authorization: Bearer …`, in the page's cookie or in its address."""

    def __init__(self, token: str) -> None:
        self._token = token
        # cookies belong to a host whatever the port: two servers there should not take each other's away
        self.cookie = f"whence_{hashlib.sha256(token.encode()).hexdigest()[:8]}"

    def let_in(self, scope: Scope) -> dict[str, str]:
        """Headers for the answer: the cookie, where the token came in the page's address."""
        headers = Headers(scope=scope)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is(given.strip()):
            return {}
        if self._is(self._in_cookie(headers)):
            return {}
        if scope["path"] == PAGE and self._is(_in_address(scope["query_string"])):
            secure = "; Secure" if scope.get("scheme") == "https" else ""
            return {"Set-Cookie": f"{self.cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict{secure}"}
        raise ApiError(
            401, "no_token", "This server asks for a token.",
            "Open the address that it printed at its start, or send the header Authorization: Bearer TOKEN.",
            {"WWW-Authenticate": "Bearer", **CLOSE},
        )  # fmt: skip

    def _is(self, given: str) -> bool:
        """In a time that says nothing about how much of it is right."""
        return secrets.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def _in_cookie(self, headers: Headers) -> str:
        return str(cookie_parser(headers.get("cookie", "")).get(self.cookie, ""))  # others' may be malformed


def _in_address(query: bytes) -> str:
    try:
        return parse_qs(query.decode("latin-1"), max_num_fields=10).get("token", [""])[0]
    except ValueError:
        return ""
