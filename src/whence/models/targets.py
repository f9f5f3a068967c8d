"""Targets: the scalar that is explained, as a sum of outputs.

Every built-in target is a weighted sum of entries of the model's output, chosen per example after the forward pass
(the predicted class is known only then). So explanations are linear in the target, and batches can mix targets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whence.errors import InputError, UnknownNameError

__all__ = [
    "AbstractTarget",
    "Answer",
    "Class",
    "Contrast",
    "Custom",
    "Next",
    "Predicted",
    "Span",
    "Term",
    "TokenLabel",
    "View",
    "contrast",
    "field_of",
    "span",
    "token",
]


class Term(NamedTuple):
    """One entry of the output: `weight · outputs[field][example, *place]`."""

    place: tuple[int, ...]
    weight: float = 1.0
    field: str = "logits"


class View(NamedTuple):
    """What a target sees of one example: its outputs, detached, and how to name and find their entries."""

    outputs: Callable[[str], Tensor]
    """Field name to this example's output."""
    labels: Sequence[str]
    """Class names; empty for language models."""
    spell: Callable[[int], str]
    """Index of an output to words."""
    find: Callable[[str], int]
    """Words to index of an output."""
    position: int | None
    """Where a language model predicts its next token (or its mask); None for classifiers."""
    continuation: tuple[int, ...] = ()
    """Ids of the given or generated continuation, whose predictions start at `position`."""
    text: str = ""


class AbstractTarget(ABC):
    """Chooses the entries of the output that are explained."""

    @abstractmethod
    def terms(self, view: View) -> tuple[list[Term], str]:
        """The sum to explain, and its name."""


def _index_of(choice: int | str, view: View, size: int) -> int:
    if isinstance(choice, str):
        return view.find(choice)
    index = int(choice)
    if not -size <= index < size:
        raise InputError(f"class {index} does not exist: the model has {size} outputs, 0 to {size - 1}")
    return index % size


def _place(view: View, index: int) -> tuple[int, ...]:
    return (index,) if view.position is None else (view.position, index)


def _scores(view: View) -> Tensor:
    logits = view.outputs("logits")
    return logits if view.position is None else logits[view.position]


@dataclass(frozen=True)
class Predicted(AbstractTarget):
    """The class with the highest score."""

    def terms(self, view: View) -> tuple[list[Term], str]:
        scores = _scores(view).reshape(-1)
        index = int(scores.argmax())
        return [Term(_place(view, index))], view.spell(index)


@dataclass(frozen=True)
class Class(AbstractTarget):
    """One class, by index or by label (the true label, for instance)."""

    choice: int | str

    def terms(self, view: View) -> tuple[list[Term], str]:
        index = _index_of(self.choice, view, _scores(view).shape[-1])
        return [Term(_place(view, index))], view.spell(index)


@dataclass(frozen=True)
class Contrast(AbstractTarget):
    """Why this rather than that: the difference of two scores."""

    this: int | str
    that: int | str

    def terms(self, view: View) -> tuple[list[Term], str]:
        size = _scores(view).shape[-1]
        this, that = _index_of(self.this, view, size), _index_of(self.that, view, size)
        terms = [Term(_place(view, this)), Term(_place(view, that), -1.0)]
        return terms, f"{view.spell(this)} rather than {view.spell(that)}"


@dataclass(frozen=True)
class Next(AbstractTarget):
    """The next token against the runner-up (or alone). Logits of language models have no zero of their own."""

    choice: int | str | None = None
    against_runner_up: bool = True

    def terms(self, view: View) -> tuple[list[Term], str]:
        assert view.position is not None
        scores = _scores(view)
        chosen = int(scores.argmax()) if self.choice is None else _index_of(self.choice, view, scores.shape[-1])
        terms, name = [Term((view.position, chosen))], view.spell(chosen)
        if self.against_runner_up:
            rival = _runner_up(scores, chosen)
            terms.append(Term((view.position, rival), -1.0))
            name = f"{name} rather than {view.spell(rival)}"
        return terms, name


def _runner_up(scores: Tensor, chosen: int) -> int:
    best = scores.topk(2).indices.tolist()
    return best[1] if best[0] == chosen else best[0]


@dataclass(frozen=True)
class Span(AbstractTarget):
    """Tokens `start` to `stop` of the continuation, each against its runner-up; the whole of it by default."""

    start: int = 0
    stop: int | None = None
    against_runner_up: bool = True

    def terms(self, view: View) -> tuple[list[Term], str]:
        assert view.position is not None
        chosen = range(len(view.continuation))[self.start : self.stop]
        if not chosen:
            raise InputError(
                f"span({self.start}, {self.stop}) holds no token: the continuation has {len(view.continuation)}. "
                "Pass continuation='…' or generate=N to explain."
            )
        terms: list[Term] = []
        for n in chosen:
            row, token = view.position + n, view.continuation[n]
            terms.append(Term((row, token)))
            if self.against_runner_up:
                terms.append(Term((row, _runner_up(view.outputs("logits")[row], token)), -1.0))
        return terms, "".join(view.spell(view.continuation[n]) for n in chosen)


@dataclass(frozen=True)
class TokenLabel(AbstractTarget):
    """The label of one token (token classification). Default: the most certain label that is not the first one."""

    position: int | None = None
    choice: int | str | None = None

    def terms(self, view: View) -> tuple[list[Term], str]:
        logits = view.outputs("logits")
        position = self.position
        if position is None:
            outside = view.labels.index("O") if "O" in view.labels else 0
            others = logits.softmax(-1).clone()
            others[:, outside] = -1
            position = int(others.max(-1).values.argmax())
        if not 0 <= position < logits.shape[0]:
            raise InputError(f"token {position} does not exist: the input has {logits.shape[0]} tokens")
        row = logits[position]
        index = int(row.argmax()) if self.choice is None else _index_of(self.choice, view, row.shape[-1])
        return [Term((position, index))], f"{view.spell(index)} at token {position}"


@dataclass(frozen=True)
class Answer(AbstractTarget):
    """The answer of a question-answering model: start logit + end logit, of the best span by default."""

    start: int | None = None
    end: int | None = None

    def terms(self, view: View) -> tuple[list[Term], str]:
        start, end = view.outputs("start_logits"), view.outputs("end_logits")
        first = int(start.argmax()) if self.start is None else self.start
        last = first + int(end[first:].argmax()) if self.end is None else self.end
        return [
            Term((first,), 1.0, "start_logits"),
            Term((last,), 1.0, "end_logits"),
        ], f"answer tokens {first} to {last}"


@dataclass(frozen=True)
class Custom(AbstractTarget):
    """Any function of the model's outputs that returns one score per example."""

    function: Callable[[Any], Tensor]

    def terms(self, view: View) -> tuple[list[Term], str]:
        raise NotImplementedError("a custom target is computed from the outputs of the whole batch")

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "custom").replace("<lambda>", "custom")


def contrast(this: int | str, that: int | str) -> Contrast:
    """Explain why `this` rather than `that`: classes, labels, or tokens such as " Paris" and " London"."""
    return Contrast(this, that)


def span(start: int = 0, stop: int | None = None, *, against_runner_up: bool = True) -> Span:
    """Explain tokens `start` to `stop` of a given or generated continuation."""
    return Span(start, stop, against_runner_up)


def token(position: int, label: int | str | None = None) -> TokenLabel:
    """Explain the label of one token."""
    return TokenLabel(position, label)


def field_of(outputs: Any, field: str) -> Tensor:
    """A field of a model's outputs; modules that return plain tensors have one field, their logits."""
    if isinstance(outputs, Tensor):
        return outputs
    value = outputs.get(field) if isinstance(outputs, dict) else getattr(outputs, field, None)
    if value is None and field == "logits":
        value = next(
            (v for v in (outputs.values() if isinstance(outputs, dict) else outputs) if isinstance(v, Tensor)), None
        )
    if isinstance(value, tuple):
        value = value[0]
    if not isinstance(value, Tensor):
        raise InputError(f"the model's output has no {field!r}; pass target=lambda outputs: … to say what to explain")
    return value


def sum_of_terms(outputs: Any, terms: Sequence[Sequence[Term]]) -> Tensor:
    """One score per example from its terms, in few indexing operations."""
    total: Tensor | None = None
    for field in sorted({t.field for example in terms for t in example}):
        value = field_of(outputs, field)
        rows = [(n, t) for n, example in enumerate(terms) for t in example if t.field == field]
        where = tuple(
            torch.tensor(column, device=value.device) for column in zip(*((n, *t.place) for n, t in rows), strict=True)
        )
        weights = torch.tensor([t.weight for _, t in rows], device=value.device, dtype=value.dtype)
        picked = value[where] * weights
        owner = torch.zeros(len(terms), len(rows), device=value.device, dtype=value.dtype)
        owner[where[0], torch.arange(len(rows), device=value.device)] = 1
        part = owner @ picked
        total = part if total is None else total + part
    assert total is not None
    return total


def unknown_label(name: str, labels: Sequence[str]) -> UnknownNameError:
    return UnknownNameError("label", name, labels)
