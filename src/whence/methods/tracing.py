"""Every token that a language model wrote, explained one by one on one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch

from whence.core.memory import Memory
from whence.errors import InputError
from whence.methods.explaining import explain_examples
from whence.methods.method import AbstractMethod
from whence.methods.propagate import ManyTargets, Propagate
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetsOfOne
from whence.models.attending import in_the_open
from whence.models.example import Example
from whence.models.targets import AbstractTarget
from whence.models.tokens import special_in
from whence.models.word_targets import Span
from whence.models.writing import CausalLM
from whence.progress import track
from whence.results import Explanation, Trace
from whence.results.units import groups_of, words_among

__all__ = ["Rows", "place_of", "traced"]

Rows = Literal["token", "word", "sentence"]
"""What the rows of a trace are. Each is one backward pass."""
SHORTER = 0.85
"""Rows that need less of the text than this have a forward pass of their own."""
FEWEST = 32
"""Rows that are worth one: it takes as long as three of them."""
ALIKE = 64
"""Times the precision of the model: what rounding may make of a score between a text and its beginning."""


def traced(
    model: AbstractAdapter,
    method: AbstractMethod,
    example: Example,
    *,
    rows: Rows = "token",
    target: Callable[[int, int], AbstractTarget] = Span,
    memory: Memory = "auto",
    progress: bool | None = False,
) -> Trace:
    """A row for each token (word, sentence) that is written in `example`: what it came from.

    `target` makes what is explained of written tokens, the first and the one behind the last.
    """
    names, spans = _rows(model, example, rows)
    targets = [target(a, b) for a, b in spans]
    made = track(
        _each(model, method, example, targets, [b for _, b in spans], memory), method.name, len(spans), show=progress
    )
    return Trace.of(list(made), names, [place_of(model, example, a, b) for a, b in spans], example.written)


def _each(
    model: AbstractAdapter,
    method: AbstractMethod,
    example: Example,
    targets: Sequence[AbstractTarget],
    ends: Sequence[int],
    memory: Memory,
) -> Iterator[Explanation]:
    """One explanation for each target: on few forward passes where their graphs fit, one by one else.

    `ends` are the written tokens behind the last of each target.
    """
    done = 0
    if isinstance(method, Propagate) and memory in ("auto", "keep") and len(targets) > 1:
        try:
            for part, own in _passes(model, example, targets, ends):
                within = None if part is example else example
                with in_the_open(model.module), ManyTargets(method, model, part, own, within) as asked:
                    for n in range(len(own)):
                        yield asked.explanation(n)
                        done += 1
            return
        except torch.OutOfMemoryError:
            if memory == "keep":
                raise
    for target in targets[done:]:
        (found,) = explain_examples(model, method, [example], [target], memory=memory)
        if isinstance(found, Exception):
            raise found
        yield found


def _passes(
    model: AbstractAdapter, example: Example, targets: Sequence[AbstractTarget], ends: Sequence[int]
) -> list[tuple[Example, Sequence[AbstractTarget]]]:
    """The forward passes of a trace, and the targets of each: over all that was written when the last of them came.

    What was written later has no part in them: 240 tokens behind a prompt of 5 take two thirds of the time. Models that
    read a text by its length (positions that are scaled, for instance) give other scores for its beginning, and are
    asked about the whole alone.
    """
    whole = [(example, targets)]
    groups = _groups([example.rows[end - 1] + 1 for end in ends])
    if len(groups) == 1 or not isinstance(model, CausalLM):
        return whole
    parts = [model.beginning(example, ends[own.stop - 1]) for own in groups[:-1]]
    if parts[0] is None:
        return whole
    first, most = targets[: groups[0].stop], ALIKE * max(torch.finfo(model.dtype).eps, 1e-5)
    if not np.allclose(_scores(model, parts[0], first), _scores(model, example, first), rtol=1e-3, atol=most):
        return whole
    shorter = [part for part in parts if part is not None]
    return list(zip([*shorter, example], [targets[own] for own in groups], strict=True))


def _groups(lengths: Sequence[int]) -> list[slice]:
    """Targets that go together, by the tokens that each needs: as many as are worth a forward pass of their own."""
    made: list[slice] = []
    stop = len(lengths)
    while stop:
        near = next(n for n in range(stop) if lengths[n] > SHORTER * lengths[stop - 1])
        start = min(near, max(0, stop - FEWEST))
        start = start if start >= FEWEST else 0
        made.append(slice(start, stop))
        stop = start
    return made[::-1]


def _scores(model: AbstractAdapter, example: Example, targets: Sequence[AbstractTarget]) -> np.ndarray:
    """What the targets are worth in a plain forward pass."""
    batch = model.collate([example], targets)
    with torch.no_grad():
        return TargetsOfOne(model, batch, targets)(model.run(batch))[:, 0].cpu().double().numpy()


def _rows(model: AbstractAdapter, example: Example, rows: Rows) -> tuple[list[str], list[tuple[int, int]]]:
    """What the rows of a trace read, and which written tokens each is."""
    names = model.pieces_written(example)
    if rows == "token":
        return list(names), [(n, n + 1) for n in range(len(names))]
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        raise InputError(f"this model came without a tokenizer, so nobody knows its {rows}s: leave rows= out")
    marks = special_in(tokenizer, example.written)
    words = tuple(None if mark else word for word, mark in zip(words_among(names), marks, strict=True))
    text = Explanation(np.zeros(len(names)), tokens=tuple(names), word_ids=words, special=marks)
    groups = [own for _, own in groups_of(text, rows)]
    return ["".join(names[n] for n in own) for own in groups], [(own[0], own[-1] + 1) for own in groups]


def place_of(model: AbstractAdapter, example: Example, start: int, stop: int) -> tuple[int, int]:
    """Which features written tokens are: the first, and the one behind the last. The last written is none."""
    part = next(n for n, part in enumerate(example.parts) if part.source.name == model.follows)
    own = example.slices()[part]
    first, behind = (min(own.start + example.rows[0] + 1 + n, own.stop) for n in (start, stop))
    return first, behind
