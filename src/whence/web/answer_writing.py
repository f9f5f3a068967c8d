"""What language models write, with where it came from."""

from __future__ import annotations

from typing import Any

from whence.errors import WhenceError
from whence.models import AbstractAdapter
from whence.models.writing import CausalLM
from whence.results import Citations, Trace
from whence.verbs.cite import cite
from whence.verbs.explain import explain
from whence.viz import citations_page, trace_page
from whence.viz.verdicts import verdict
from whence.web.answer_stream import Tell
from whence.web.catalogue import Catalogue
from whence.web.inputs import check_text
from whence.web.prompts import prompt_of, tokens_of
from whence.web.refusals import ApiError, of_library
from whence.web.requests import CiteFigureRequest, CiteRequest, WriteFigureRequest, WriteRequest
from whence.web.settings import Limits

__all__ = ["cited", "cited_again", "written", "written_again"]


def written(request: WriteRequest, catalogue: Catalogue, limits: Limits, tell: Tell) -> None:
    """Tell every token as it is written, and at the end the trace: where each came from."""
    adapter = _writer(request.model, catalogue)
    _check_generate(request.generate, limits)
    prompt = prompt_of(adapter, request, limits, request.generate)
    options: dict[str, Any] = {"generate": request.generate, "progress": False}
    if isinstance(adapter, CausalLM):
        options["on_token"] = lambda text, _: tell({"event": "token", "text": text})
    try:
        trace: Trace = explain(adapter, prompt, request.method, **options)
    except WhenceError as error:
        raise of_library(error) from None
    said = {"verdict": verdict(trace), "data": trace_page.data_of(trace)}
    tell({"event": "trace", "text": request.text, "ids": list(trace.ids), **said})


def written_again(request: WriteFigureRequest, catalogue: Catalogue, limits: Limits) -> Trace:
    """The trace of what was written before."""
    adapter = _writer(request.model, catalogue)
    more = tokens_of(adapter, request.continuation)
    _check_generate(more, limits)
    prompt = prompt_of(adapter, request, limits, 0 if adapter.attends_across else more)
    try:
        trace: Trace = explain(adapter, prompt, request.method, continuation=request.continuation, progress=False)
    except WhenceError as error:
        raise of_library(error) from None
    return trace


def cited(request: CiteRequest, catalogue: Catalogue, limits: Limits) -> dict[str, Any]:
    """The answer of /api/cite."""
    _check_generate(request.generate, limits)
    given = {"answer": request.answer} if request.answer is not None else {"generate": request.generate}
    result = _cited(request, given, catalogue, limits)
    return {
        "verdict": verdict(result),
        "html": citations_page.body_of(result),
        "data": citations_page.data_of(result),
        "ids": list(result.trace.ids) if result.trace is not None else [],
    }


def cited_again(request: CiteFigureRequest, catalogue: Catalogue, limits: Limits) -> Citations:
    """Citations of an answer that was written before."""
    return _cited(request, {"answer": request.answer}, catalogue, limits)


def _cited(
    request: CiteRequest | CiteFigureRequest, given: dict[str, Any], catalogue: Catalogue, limits: Limits
) -> Citations:
    adapter = _writer(request.model, catalogue)
    answer = request.answer if isinstance(request.answer, str) else ""
    check_text(adapter, "\n\n".join([*request.documents, request.question, answer]), None, limits)
    try:
        return cite(adapter, request.question, list(request.documents), method=request.method, progress=False, **given)
    except WhenceError as error:
        raise of_library(error) from None


def _writer(name: str, catalogue: Catalogue) -> AbstractAdapter:
    adapter = catalogue.model(name)
    if not adapter.writes:
        raise ApiError(422, "wrong_input", "This model does not write text.", "Choose one that does, from /api/info.")
    return adapter


def _check_generate(count: int, limits: Limits) -> None:
    if count > limits.generate:
        message = f"{count:,} tokens to generate; the limit is {limits.generate}."
        raise ApiError(422, "too_many", message, f"Send {limits.generate} at most.")
