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
from whence.models.attending import in_the_open
from whence.models.example import Example
from whence.models.targets import AbstractTarget
from whence.models.tokens import special_in
from whence.models.word_targets import Span
from whence.progress import track
from whence.results import Explanation, Trace
from whence.results.units import groups_of, words_among

__all__ = ["Rows", "place_of", "traced"]

Rows = Literal["token", "word", "sentence"]
"""What the rows of a trace are. Each is one backward pass."""


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
    made = track(_each(model, method, example, targets, memory), method.name, len(spans), show=progress)
    return Trace.of(list(made), names, [place_of(model, example, a, b) for a, b in spans])


def _each(
    model: AbstractAdapter, method: AbstractMethod, example: Example, targets: Sequence[AbstractTarget], memory: Memory
) -> Iterator[Explanation]:
    """One explanation for each target: on one forward pass where its graph fits, one by one else."""
    done = 0
    if isinstance(method, Propagate) and memory in ("auto", "keep") and len(targets) > 1:
        try:
            with in_the_open(model.module), ManyTargets(method, model, example, targets) as asked:
                for n in range(len(targets)):
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
