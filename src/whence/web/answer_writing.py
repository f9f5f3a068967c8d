"""What language models write, with where it came from."""

from __future__ import annotations

from typing import Any

from whence.errors import WhenceError
from whence.models import AbstractAdapter
from whence.models.writing import CausalLM
from whence.results import Trace
from whence.verbs.cite import cite
from whence.verbs.explain import explain
from whence.viz import citations_page, trace_page
from whence.viz.verdicts import verdict
from whence.web.answer_stream import Tell
from whence.web.catalogue import Catalogue
from whence.web.inputs import check_text, check_tokens
from whence.web.refusals import ApiError, of_library
from whence.web.requests import CiteRequest, WriteRequest
from whence.web.settings import Limits

__all__ = ["cited", "written"]


def written(request: WriteRequest, catalogue: Catalogue, limits: Limits, tell: Tell) -> None:
    """Tell every token as it is written, and at the end the trace: where each came from."""
    adapter = _writer(request.model, request.generate, catalogue, limits)
    check_text(adapter, request.text, None, limits)
    check_tokens(adapter, request.text, None, limits.tokens, request.generate)
    options: dict[str, Any] = {"generate": request.generate, "progress": False}
    if isinstance(adapter, CausalLM):
        options["on_token"] = lambda text, _: tell({"event": "token", "text": text})
    try:
        trace: Trace = explain(adapter, request.text, request.method, **options)
    except WhenceError as error:
        raise of_library(error) from None
    said = {"verdict": verdict(trace), "data": trace_page.data_of(trace)}
    tell({"event": "trace", "text": request.text, **said})


def cited(request: CiteRequest, catalogue: Catalogue, limits: Limits) -> dict[str, Any]:
    """The answer of /api/cite."""
    adapter = _writer(request.model, request.generate, catalogue, limits)
    whole = "\n\n".join([*request.documents, request.question, request.answer or ""])
    check_text(adapter, whole, None, limits)
    given: dict[str, Any] = {"answer": request.answer} if request.answer is not None else {"generate": request.generate}
    try:
        result = cite(
            adapter, request.question, list(request.documents), method=request.method, progress=False, **given
        )
    except WhenceError as error:
        raise of_library(error) from None
    return {
        "verdict": verdict(result),
        "html": citations_page.body_of(result),
        "data": citations_page.data_of(result),
    }


def _writer(name: str, generate: int, catalogue: Catalogue, limits: Limits) -> AbstractAdapter:
    adapter = catalogue.model(name)
    if not adapter.writes:
        raise ApiError(422, "wrong_input", "This model does not write text.", "Choose one that does, from /api/info.")
    if generate > limits.generate:
        message = f"{generate:,} tokens to generate; the limit is {limits.generate}."
        raise ApiError(422, "too_many", message, f"Send {limits.generate} at most.")
    return adapter
