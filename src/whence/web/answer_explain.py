"""Explanations for requests: every method for every target, and what could not be done."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import torch

from whence.errors import EmptyInputError, InputTooLongError, UnknownNameError, WhenceError
from whence.models import AbstractAdapter
from whence.models.targets import contrast
from whence.models.word_targets import span, written
from whence.results import Comparison, Explanation
from whence.results.explanation_files import to_wire
from whence.verbs.compare import classes
from whence.verbs.explain import explain
from whence.web.catalogue import Catalogue, is_slow
from whence.web.inputs import check_tokens, input_of
from whence.web.prompts import chat_of, tokens_of
from whence.web.refusals import ApiError, logged, of_library
from whence.web.requests import ContrastBody, ExplainRequest, WrittenBody
from whence.web.settings import Limits

__all__ = ["AskedFor", "answered", "answered_together", "checked", "compared", "likeness", "one_by_one"]

T = TypeVar("T")
log = logging.getLogger("whence.web")
SHORT = 1000
"""Characters of a text that is explained together with others: a long one would keep them waiting."""


def checked(request: ExplainRequest, catalogue: Catalogue, limits: Limits) -> None:
    """Refuse what can be refused without a model, before it takes a place in the queue."""
    if len(request.methods) > limits.methods:
        raise _too_many("methods", len(request.methods), limits.methods)
    if isinstance(request.targets, list) and len(request.targets) > limits.targets:
        raise _too_many("targets", len(request.targets), limits.targets)
    if isinstance(request.targets, list) and not request.targets:
        raise ApiError(422, "invalid", "targets: the list is empty.", "Send null for what the model predicts.")
    if request.generate is not None and request.generate > limits.generate:
        raise _too_many("tokens to generate", request.generate, limits.generate)
    if request.generate is not None and request.continuation is not None:
        raise ApiError(422, "invalid", "generate and continuation exclude each other.", "Send one of them.")
    for name in request.methods:
        catalogue.check_method(name)


def _too_many(what: str, count: int, most: int) -> ApiError:
    return ApiError(422, "too_many", f"{count:,} {what}; the limit is {most}.", f"Send {most} at most.")


def answered(request: ExplainRequest, catalogue: Catalogue, limits: Limits) -> dict[str, Any]:
    """The answer of /api/explain."""
    begun = time.perf_counter()
    results, failed = compared(request, catalogue, limits)
    return _answer(request, results, failed, begun)


def _answer(
    request: ExplainRequest, results: Sequence[Explanation], failed: list[dict[str, str]], begun: float
) -> dict[str, Any]:
    wires = [to_wire(exp) for exp in results]
    return {
        "model": request.model,
        "prediction": wires[0]["prediction"],
        "explanations": wires,
        "failed": failed,
        "seconds": round(time.perf_counter() - begun, 4),
    }


def likeness(request: ExplainRequest) -> Hashable | None:
    """Requests of one likeness can be explained in one call; None: this one is explained by itself.

    What is slow would hold up the others, and what is large once it is unpacked would be there several times.
    """
    writes = request.generate is not None or request.continuation is not None
    if request.text is None or request.image is not None or writes or any(map(is_slow, request.methods)):
        return None
    labels = request.labels or ("",)  # the text is read with each
    if len(labels) * len(request.text) + len("".join(labels)) + len(request.pair or "") > SHORT:
        return None
    return request.model, tuple(request.methods), request.special_tokens


def answered_together(
    requests: Sequence[ExplainRequest], catalogue: Catalogue, limits: Limits
) -> list[dict[str, Any] | Exception]:
    """Answers to requests of one likeness, from one call for each method; or what is wrong with a request."""
    begun = time.perf_counter()
    asked = [_attempt(lambda: AskedFor.by(request, catalogue, limits)) for request in requests]
    good = [one for one in asked if isinstance(one, AskedFor)]
    if len(good) > 1:
        try:
            made = _in_one_call(good)
            answers = iter([_answer(one.request, exps, [], begun) for one, exps in zip(good, made, strict=True)])
            return [next(answers) if isinstance(one, AskedFor) else one for one in asked]
        except Exception as error:  # whose it is shows when each is by itself
            log.debug("a batch of %d failed: %r", len(good), error)
    return [
        _attempt(lambda: answered(request, catalogue, limits)) if isinstance(one, AskedFor) else one
        for request, one in zip(requests, asked, strict=True)
    ]


def _attempt(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:
        return error


@dataclass(frozen=True)
class AskedFor:
    """A request, and what it comes to for its model."""

    request: ExplainRequest
    adapter: AbstractAdapter
    item: Any
    targets: list[Any]
    options: dict[str, Any]

    @classmethod
    def by(cls, request: ExplainRequest, catalogue: Catalogue, limits: Limits) -> Self:
        adapter = catalogue.model(request.model)
        item = _item(adapter, request, limits)
        options: dict[str, Any] = {"special_tokens": request.special_tokens, "progress": False}
        if request.continuation is not None or request.generate is not None:
            _check_writes(adapter, request, limits)
            options |= {"continuation": request.continuation} if request.continuation is not None else {}
            options |= {"generate": request.generate} if request.generate is not None else {}
        try:
            targets = _targets(request, adapter, item, limits)
        except WhenceError as error:
            raise of_library(error) from None
        return cls(request, adapter, item, targets, options)


def _item(adapter: AbstractAdapter, request: ExplainRequest, limits: Limits) -> Any:
    """The input, or the conversation in its place."""
    if request.messages is None:
        return input_of(adapter, request, limits)
    given = (request.text, request.pair, request.image, request.sound, request.labels)
    if any(one is not None for one in given):
        message = "messages stand in the place of an input."
        raise ApiError(422, "invalid", message, "Leave the other fields of the input out, or messages.")
    return chat_of(adapter, request.messages, limits, _more(adapter, request))


def _more(adapter: AbstractAdapter, request: ExplainRequest) -> int:
    """How many tokens are written behind the input."""
    return request.generate or (0 if request.continuation is None else tokens_of(adapter, request.continuation))


def _in_one_call(asked: Sequence[AskedFor]) -> list[list[Explanation]]:
    """Explanations of several requests of one likeness: by request, then by target, then by method."""
    first = asked[0]
    items = [one.item for one in asked for _ in one.targets]
    targets = [target for one in asked for target in one.targets]
    by_method = [
        iter(explain(first.adapter, items, method, targets, **first.options))
        for method in dict.fromkeys(first.request.methods)
    ]
    return [[next(found) for _ in one.targets for found in by_method] for one in asked]


def compared(request: ExplainRequest, catalogue: Catalogue, limits: Limits) -> tuple[Comparison, list[dict[str, str]]]:
    """Explanations by target and method, and the methods that failed. At least one did not."""
    asked = AskedFor.by(request, catalogue, limits)
    made: dict[str, list[Explanation]] = {}
    failures: list[tuple[str, ApiError]] = []
    for method, found in one_by_one(asked, request.methods):
        if isinstance(found, ApiError):
            failures.append((method, found))
        else:
            made[method] = found
    if not made:
        raise failures[0][1]
    ordered = [made[m][n] for n in range(len(asked.targets)) for m in made]
    return Comparison(tuple(ordered)), [{"method": m, "message": e.message} for m, e in failures]


def one_by_one(asked: AskedFor, methods: Sequence[str]) -> Iterator[tuple[str, list[Explanation] | ApiError]]:
    """Each method's explanations, one for each target, as soon as they are there; or why there are none."""
    for method in dict.fromkeys(methods):
        try:
            yield method, _explained(asked.adapter, asked.item, method, asked.targets, asked.options)
        except (UnknownNameError, EmptyInputError, InputTooLongError) as error:  # no method can do better
            raise of_library(error) from None
        except WhenceError as error:
            yield method, of_library(error)
        except torch.OutOfMemoryError:
            message = "There is not enough memory for this method on this input."
            yield method, ApiError(413, "too_large", message, "Send a smaller input.")
        except Exception as error:
            yield method, logged(error, f"method {method}")


def _explained(
    adapter: AbstractAdapter, item: Any, method: str, targets: list[Any], options: dict[str, Any]
) -> list[Explanation]:
    """One explanation per target, all in one batch. What a model wrote is explained as a whole."""
    if options.get("generate") is not None or options.get("continuation") is not None:
        targets = [span() if target is None else target for target in targets]
    if len(targets) == 1:
        return [explain(adapter, item, method, targets[0], **options)]
    made: list[Explanation] = explain(adapter, [item] * len(targets), method, targets, **options)
    return made


def _check_writes(adapter: AbstractAdapter, request: ExplainRequest, limits: Limits) -> None:
    """Only some models write, and what they write counts as well; encoder-decoders write on a page of their own."""
    if not adapter.writes:
        raise ApiError(422, "wrong_input", "This model does not write text.", "Leave continuation and generate out.")
    if request.continuation == "":
        raise ApiError(422, "empty", "The continuation is empty.", "Send some text, or null.")
    before = "" if adapter.attends_across else request.text or ""
    check_tokens(adapter, before, request.pair if before else None, limits.tokens, _more(adapter, request))


def _targets(request: ExplainRequest, adapter: AbstractAdapter, item: Any, limits: Limits) -> list[Any]:
    given = request.targets
    if given is None:
        return [None]
    if given == "all":
        found = classes(adapter, item, limits.targets) if not adapter.speaks else ()
        if not found:
            raise ApiError(
                422, "invalid", "targets: this model has no classes to go through.",
                "Send a list of targets, or null for what it predicts.",
            )  # fmt: skip
        return list(found)
    return [_target(one) for one in given]


def _target(given: str | int | ContrastBody | WrittenBody) -> Any:
    if isinstance(given, ContrastBody):
        return contrast(given.this, given.that)
    return written(given.written, than=given.than) if isinstance(given, WrittenBody) else given
