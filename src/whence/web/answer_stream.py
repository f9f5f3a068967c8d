"""Explanations one by one, as soon as they are there, and which of them to believe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from whence import cancel, progress
from whence.errors import WhenceError
from whence.evaluation.faith import agreement, faithfulness
from whence.evaluation.removal import Removal, drawn, removals, units
from whence.models.example import Example
from whence.models.targets import contrast
from whence.results import Explanation
from whence.results.explanation_files import to_wire
from whence.web.answer_explain import AskedFor, one_by_one
from whence.web.catalogue import Catalogue, is_slow
from whence.web.inputs import input_of
from whence.web.refusals import ApiError, of_library
from whence.web.requests import ContrastBody, RemoveRequest, StreamRequest
from whence.web.settings import Limits

__all__ = ["Tell", "removed", "streamed"]

Tell = Callable[[dict[str, Any]], None]
OFTEN = 0.2
"""Seconds between two words on how far a method is."""


def streamed(request: StreamRequest, catalogue: Catalogue, limits: Limits, tell: Tell) -> None:
    """Tell the answer of /api/stream, event by event; quick methods come first."""
    begun = time.perf_counter()
    asked = AskedFor.by(request, catalogue, limits)
    made: dict[str, list[Explanation]] = {}
    failures: list[ApiError] = []
    ordered = sorted(dict.fromkeys(request.methods), key=is_slow)
    for method in ordered:
        cancel.check()
        since = time.perf_counter()
        with progress.heard(_Progress(method, tell)):
            ((_, found),) = one_by_one(asked, [method])
        if isinstance(found, ApiError):
            failures.append(found)
            tell({"event": "failed", "method": method, "message": found.message})
            continue
        made[method] = found
        seconds = round(time.perf_counter() - since, 4)
        tell({"event": "explained", "method": method, "seconds": seconds, "explanations": [to_wire(e) for e in found]})
    if not made:
        raise failures[0]
    tell({"event": "all_explained", "seconds": round(time.perf_counter() - begun, 4)})
    if request.faithfulness:
        _judged(asked, made, tell)
    tell({"event": "done", "seconds": round(time.perf_counter() - begun, 4)})


def _judged(asked: AskedFor, made: dict[str, list[Explanation]], tell: Tell) -> None:
    """How faithful each method's explanation of the first target is, and how much they agree."""
    adapter = asked.adapter
    scores = {method: found[0].scores for method, found in made.items()}
    try:
        (example,), _ = adapter.encode([asked.item])
        example, target = adapter.aim(example, asked.targets[0])
        fits = {m: s for m, s in scores.items() if s.size == example.count}
        if not fits:
            raise ApiError(422, "not_measured", "The explanations are not of the features that can be taken away.")
        found = faithfulness(adapter, example, target, fits)
        alike = agreement(example, fits)
    except (WhenceError, ApiError) as error:
        tell({"event": "not_judged", "message": str(error)})
        return
    for method, faith in found.items():
        curves = {name: _plain(value) for name, value in faith._asdict().items()}
        tell({"event": "judged", "method": method, "target": made[method][0].target, **curves})
    tell({"event": "agreement", "methods": list(fits), "correlations": _plain(alike)})


class _Progress:
    """Tells how far a method is, now and then, and how long it will take if it goes on like this."""

    def __init__(self, method: str, tell: Tell) -> None:
        self.method, self.tell = method, tell
        self.begun = self.last = time.perf_counter()

    def __call__(self, done: int, total: int) -> None:
        now = time.perf_counter()
        if now - self.last < OFTEN:
            return
        self.last = now
        left = (now - self.begun) * (total - done) / done
        self.tell({"event": "progress", "method": self.method, "done": done, "total": total, "left": round(left, 1)})


def removed(request: RemoveRequest, catalogue: Catalogue, limits: Limits) -> dict[str, Any]:
    """The answer of /api/remove."""
    if len(request.removed) > limits.removed:
        raise ApiError(
            422, "too_many", f"{len(request.removed):,} features; the limit is {limits.removed}.", "Take fewer away."
        )
    adapter = catalogue.model(request.model)
    item = input_of(adapter, request, limits)
    given = request.target
    choice = contrast(given.this, given.that) if isinstance(given, ContrastBody) else given
    try:
        (example,), _ = adapter.encode([item])
        example, target = adapter.aim(example, choice)
        units_gone = _units(example, request.removed)
        random = drawn(example, units_gone, request.draws, request.seed) if units_gone else []
        whole, without, *others = removals(adapter, example, target, [[], request.removed, *random])
    except WhenceError as error:
        raise of_library(error) from None
    return {
        "fill": "mask",
        "whole": _body(whole),
        "without": _body(without),
        "random": [_body(one) for one in others],
    }


def _units(example: Example, gone: list[int]) -> int:
    """How many words (patches, moments) are taken away."""
    taken = set(gone)
    return sum(bool(taken & set(unit)) for unit in units(example))


def _body(removal: Removal) -> dict[str, Any]:
    return {name: _plain(value) for name, value in removal._asdict().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value
