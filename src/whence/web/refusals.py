"""Every answer that is not a success: `{"error": {"code", "message", "hint"}}`."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from whence.errors import EmptyInputError, InputTooLongError, MissingExtraError, UnknownNameError, WhenceError

__all__ = ["ApiError", "answer", "install", "logged", "not_json", "of_library"]

log = logging.getLogger("whence.web")


class ApiError(Exception):
    """An answer for the client: what was wrong, and what to do."""

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint = status, code, message, hint
        self.headers = dict(headers or {})


def answer(error: ApiError) -> JSONResponse:
    body = {"error": {"code": error.code, "message": _safe(error.message), "hint": _safe(error.hint)}}
    return JSONResponse(body, error.status, error.headers)


def _safe(text: str) -> str:
    """Text that can be encoded: half a surrogate pair from a request may be quoted in a message."""
    return text.encode("utf-8", "replace").decode()


def of_library(error: WhenceError) -> ApiError:
    """An error of the library, as the client's. Its messages say what to type in Python; the hint is for the API."""
    if isinstance(error, UnknownNameError):
        message, _, known = str(error).partition(" Known: ")
        return ApiError(422, f"unknown_{error.kind}", message, f"Known: {known[:500]}")
    if isinstance(error, InputTooLongError):
        return ApiError(413, "too_long", str(error).split(". ")[0] + ".", "Shorten the input.")
    if isinstance(error, EmptyInputError):
        return ApiError(422, "empty", str(error), "Send some text.")
    if isinstance(error, MissingExtraError):
        return ApiError(422, "not_installed", str(error), "Choose another method, or install it where the server runs.")
    return ApiError(422, "not_explained", str(error), "Change the input, the target or the method.")


def logged(error: BaseException, what: str) -> ApiError:
    """The answer to a fault of the server: the traceback goes to the log, under an id that the client is told."""
    number = secrets.token_hex(4)
    log.error("%s failed, id %s", what, number, exc_info=error)
    return ApiError(
        500, "internal", f"The server failed; the reason is in its log, id {number}.", "Try again, or report the id."
    )


def install(app: FastAPI) -> None:
    """Give every error of the application the same shape."""

    @app.exception_handler(ApiError)
    async def _ours(_: Request, error: ApiError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(WhenceError)
    async def _library(_: Request, error: WhenceError) -> JSONResponse:
        return answer(of_library(error))

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return answer(_of_validation(error.errors()))

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # FastAPI's word for a body that it could not decode
            return answer(not_json())
        codes = {404: "not_found", 405: "not_allowed"}
        hint = "GET /api/docs lists every address." if error.status_code in codes else "See /api/docs."
        code = codes.get(error.status_code, "invalid")
        return answer(ApiError(error.status_code, code, str(error.detail), hint, error.headers))


def _of_validation(problems: Sequence[Any]) -> ApiError:
    """One problem in words. What was sent is not repeated: it may be long, or not text at all.

    Of the problems that the variants of a value have with it, that of the one which read furthest.
    """
    first = max(problems, key=lambda problem: len(_places(problem)))
    if first["type"] == "json_invalid":
        return not_json()
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in _places(first)).lstrip(".")
    if first["type"] in _NO_OBJECT:
        said = f"{where[:80] or 'the request'} must be a JSON object" + ("" if where else _AS)
    else:
        said = f"{where[:80] or 'the request'}: {first['msg'].removeprefix('Value error, ')}"
    return ApiError(422, "invalid", said, "See /api/docs for what is expected.")


def _places(problem: Any) -> list[Any]:
    """Where it is in the request, without the variants that were tried ("list[…]" is one too)."""
    return [p for p in problem["loc"][1:] if p not in _VARIANTS and "[" not in str(p)]


def not_json() -> ApiError:
    return ApiError(400, "not_json", "The body is not JSON.", "Send JSON; /api/docs has examples.")


_VARIANTS = ("str", "int", "constrained-str", "constrained-int", "Contrast", "literal['all']", "list")
_NO_OBJECT = ("model_type", "model_attributes_type", "dict_type")
_AS = ', as {"model": …, "text": …}'
