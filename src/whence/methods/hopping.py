"""From a span of what a model wrote through its own text back to the prompt, on one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from whence.core.memory import Memory
from whence.errors import InputError
from whence.methods.explaining import explain_examples
from whence.methods.method import AbstractMethod
from whence.methods.propagate import ManyTargets, Propagate
from whence.methods.tracing import place_of
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetsOfOne
from whence.models.attending import in_the_open
from whence.models.example import Example
from whence.models.word_targets import Span, Weighted
from whence.results import Explanation
from whence.results.hops import Hops, passed_on

__all__ = ["hopped"]


def hopped(
    model: AbstractAdapter,
    method: AbstractMethod,
    example: Example,
    target: Any,
    hops: Hops,
    *,
    memory: Memory = "auto",
) -> Explanation:
    """A span of what is written, with what comes from the model's own text passed on (`results.hops`)."""
    if not example.written:
        raise InputError("hops= follow what the model wrote: pass generate=N or continuation='…'")
    if target is not None and not isinstance(target, Span):
        raise InputError(f"hops= start from a span of what is written: target=whence.span(…), not {target!r}")
    if not isinstance(method, Propagate):
        raise InputError(f"hops= pass relevance on, and {method.name} propagates none: use lrp, attn_lrp, …")
    chosen = target or Span()
    if memory in ("auto", "keep"):
        try:
            with in_the_open(model.module), ManyTargets(method, model, example, _single(chosen, example)) as asked:
                return _chain(model, example, chosen, asked.scores, asked.weighted, hops)
        except torch.OutOfMemoryError:
            if memory == "keep":
                raise

    def alone(weights: list[float], name: str) -> Explanation:
        aimed = Weighted(tuple(weights), chosen.score)
        (found,) = explain_examples(model, method, [example], [aimed], memory=memory)
        assert isinstance(found, Explanation)  # an error was raised
        return replace(found, target=name)

    return _chain(model, example, chosen, _scores(model, example, _single(chosen, example)), alone, hops)


def _single(span: Span, example: Example) -> list[Span]:
    """Every written token as a target of its own."""
    return [replace(span, start=n, stop=n + 1) for n in range(len(example.written))]


def _scores(model: AbstractAdapter, example: Example, targets: Sequence[Span]) -> list[float]:
    batch = model.collate([example], targets)
    with torch.no_grad():
        return [float(score) for score in TargetsOfOne(model, batch, targets)(model.run(batch))[:, 0]]


def _chain(
    model: AbstractAdapter,
    example: Example,
    span: Span,
    scores: Sequence[float],
    explained: Callable[[list[float], str], Explanation],
    hops: Hops,
) -> Explanation:
    """The hops of one span. `explained` takes a weight for each written token, and a name."""
    inside = span.within(model.pieces_written(example))
    name = model.read([example.written[n] for n in inside])
    places = [place_of(model, example, n, n + 1) for n in range(len(scores))]
    made = explained([float(n in inside) for n in range(len(scores))], name)
    return passed_on(made, places, scores, lambda weights: explained(weights, name), hops)
