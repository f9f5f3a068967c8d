"""Explanations as files to download."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any, NamedTuple

from whence import cancel
from whence.errors import MissingExtraError, WhenceError
from whence.results import Comparison
from whence.results.explanation_files import to_npz
from whence.results.showing import content, draw
from whence.results.stored import spelled
from whence.web import answer_pair, answer_writing
from whence.web.answer_explain import compared
from whence.web.catalogue import Catalogue
from whence.web.refusals import ApiError, of_library
from whence.web.requests import CiteFigureRequest, FigureRequest, PairFigureRequest, WriteFigureRequest
from whence.web.settings import Limits

__all__ = ["TYPES", "File", "drawn", "drawn_cited", "drawn_pair", "drawn_written"]

TYPES = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
    "tex": "application/x-tex",
    "txt": "text/plain; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "npz": "application/octet-stream",
}


class File(NamedTuple):
    content: bytes
    type: str
    name: str


def drawn(request: FigureRequest, catalogue: Catalogue, limits: Limits) -> File:
    """The file that /api/figure answers with."""
    results, failed = compared(request, catalogue, limits)
    if failed:
        raise ApiError(422, "not_explained", f"{failed[0]['method']}: {failed[0]['message']}", "Leave that method out.")
    return _file(lambda: _content(results, request.format), request.format, limits)


def drawn_pair(request: PairFigureRequest, catalogue: Catalogue, limits: Limits) -> File:
    """The file that /api/similarity/figure answers with."""
    pair = answer_pair.compared(request, catalogue, limits)
    return _file(lambda: content(pair, request.format), request.format, limits)


def drawn_written(request: WriteFigureRequest, catalogue: Catalogue, limits: Limits) -> File:
    """The file that /api/write/figure answers with."""
    trace = answer_writing.written_again(request, catalogue, limits)
    return _file(lambda: content(trace, request.format), request.format, limits)


def drawn_cited(request: CiteFigureRequest, catalogue: Catalogue, limits: Limits) -> File:
    """The file that /api/cite/figure answers with."""
    cited = answer_writing.cited_again(request, catalogue, limits)
    return _file(lambda: content(cited, request.format), request.format, limits)


def _file(made: Callable[[], str | bytes], form: str, limits: Limits) -> File:
    try:
        found = made()
    except MissingExtraError as error:
        raise ApiError(422, "not_installed", str(error), "Choose svg, html or json instead.") from None
    except WhenceError as error:
        raise of_library(error) from None
    held = found if isinstance(found, bytes) else found.encode()
    if len(held) > limits.answer_bytes:
        raise ApiError(
            413, "too_large", f"The file would have {len(held):,} bytes; the limit is {limits.answer_bytes:,}.",
            "Ask for fewer methods or targets, a shorter text, or another format.",
        )  # fmt: skip
    return File(held, TYPES[form], f"whence.{form}")


def _content(results: Comparison, form: str) -> str | bytes:
    result: Any = results[0] if len(results) == 1 else results
    if form == "json":
        return spelled(result.to_dict())
    if form == "csv":
        return _table(results)
    if form == "npz":
        if len(results) > 1:
            raise ApiError(422, "invalid", "npz holds one explanation.", "Send one method and one target, or use json.")
        return to_npz(results[0])
    drawn: str | bytes = draw(result, form)
    return drawn


def _table(results: Comparison) -> str:
    """One line per feature, for spreadsheets and data frames."""
    file = io.StringIO()
    rows = csv.writer(file)
    rows.writerow(["method", "target", "feature", "token", "word", "score"])
    for exp in results:
        cancel.check()
        for n, score in enumerate(exp.scores.reshape(-1).tolist()):
            word = exp.word_ids[n] if exp.word_ids else None
            rows.writerow([exp.method, exp.target, n, exp.feature(n), "" if word is None else word, repr(score)])
    return file.getvalue()
