"""Targets: the scalar that is explained, as a sum of outputs.

Every built-in target is a weighted sum of entries of the model's output, chosen per example after the forward pass
(the predicted class is known only then). So explanations are linear in the target, and batches can mix targets.
A target sees an example's own output, as if it were alone: padding is not its business.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError, UnknownNameError
from whence.models.example import Example

__all__ = [
    "CONSTANT",
    "AbstractTarget",
    "Answer",
    "Area",
    "Class",
    "Contrast",
    "Custom",
    "Predicted",
    "Term",
    "TokenLabel",
    "View",
    "Weights",
    "answer",
    "class_index",
    "contrast",
    "field_of",
    "token",
]


@dataclass(frozen=True, eq=False, repr=False)
class Area:
    """Places of a grid (row, column): a part of a picture. Many numbers, so it is one term and not one for each."""

    held: np.ndarray

    def __repr__(self) -> str:  # what tells one target from another, see `Scorer`
        return f"Area({self.held.shape}, {hashlib.sha1(np.packbits(self.held).tobytes()).hexdigest()})"

    @property
    def count(self) -> int:
        return int(self.held.sum())


@dataclass(frozen=True, eq=False, repr=False)
class Weights:
    """A weight for every output at a place: one term in place of one for each word of a vocabulary."""

    held: np.ndarray

    def __repr__(self) -> str:
        return f"Weights({hashlib.sha1(self.held.tobytes()).hexdigest()})"


CONSTANT = ""
"""The field of a term that is none of the outputs."""


class Term(NamedTuple):
    """One entry of the output: `weight · outputs[field][example, *place]`; or, of the field `CONSTANT`, the weight."""

    place: tuple[int, ...]
    weight: float = 1.0
    field: str = "logits"
    over: Area | Weights | None = None
    """Where `place` leaves several entries: the sum over these of them, or over all of them by their weights."""
    near: tuple[float, ...] = ()
    """The box that a detector's entry belongs to; in a changed picture another entry may be the one of this place."""


class View(NamedTuple):
    """What a target sees of one example: its outputs, detached, and how to name and find their entries."""

    outputs: Callable[[str], Tensor]
    """Field name to this example's output, padding cut away."""
    at: Callable[[str, Sequence[int]], Tensor]
    """Field name and tokens to the outputs at those tokens."""
    labels: Sequence[str]
    """Class names; empty for language models."""
    spell: Callable[[int], str]
    """Index of an output to words."""
    find: Callable[[str], int]
    """Words to index of an output."""
    read: Callable[[Sequence[int]], str]
    """Several indices to words."""
    example: Example
    fields: Sequence[str] = ("logits",)
    """The outputs that there are."""
    pieces: Callable[[], Sequence[str]] = tuple
    """The written tokens as they read."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Tokens at which a language model is asked what comes; empty for classifiers.

        Where something is written already, that is the first of its tokens; `Span` asks about all of them.
        """
        return asked_at(self.example)


def asked_at(example: Example) -> tuple[int, ...]:
    """Tokens at which a language model is asked what comes."""
    return example.rows[:1] if example.written else example.rows


class AbstractTarget(ABC):
    """Chooses the entries of the output that are explained."""

    reads_rows: ClassVar[bool] = False
    """Whether it looks at a language model's outputs at the predicting tokens alone (`View.at`)."""

    def rows_of(self, example: Example) -> Sequence[int]:
        """Which of them it looks at."""
        return asked_at(example)

    @abstractmethod
    def terms(self, view: View) -> tuple[list[Term], str]:
        """The sum to explain, and its name."""


def class_index(choice: int | str, view: View, size: int) -> int:
    """The output that a user means."""
    if isinstance(choice, str):
        return view.find(choice)
    if not 0 <= choice < size:
        raise InputError(f"class {choice} does not exist: the model has {size} outputs, 0 to {size - 1}")
    return choice


def _classes(view: View) -> Tensor:
    """One score per class, (row, class): a row for each predicting token, one for a classifier."""
    if view.rows:
        return view.at("logits", view.rows)
    logits = view.outputs("logits")
    if logits.dim() != 1:
        raise InputError(
            f"the model gives {tuple(logits.shape)} numbers for an input, not one per class. "
            "Pass target=lambda outputs: … to say what to explain"
        )
    return logits[None]


def _places(view: View, index: int) -> list[tuple[int, ...]]:
    return [(row, index) for row in view.rows] if view.rows else [(index,)]


@dataclass(frozen=True)
class Predicted(AbstractTarget):
    """The output with the highest score."""

    reads_rows = True

    def terms(self, view: View) -> tuple[list[Term], str]:
        if view.rows or view.outputs("logits").dim() == 1:
            best = _classes(view).argmax(-1).tolist()
            places = [(row, index) for row, index in zip(view.rows, best, strict=True)] if view.rows else [(best[0],)]
            return [Term(place) for place in places], view.read(best)
        logits = view.outputs("logits")
        place = np.unravel_index(int(logits.argmax()), tuple(logits.shape))
        return [Term(tuple(int(i) for i in place))], f"output {', '.join(str(int(i)) for i in place)}"


@dataclass(frozen=True)
class Class(AbstractTarget):
    """One class, by index or by label (the true label, for instance)."""

    reads_rows = True

    choice: int | str

    def terms(self, view: View) -> tuple[list[Term], str]:
        index = class_index(self.choice, view, _classes(view).shape[-1])
        return [Term(place) for place in _places(view, index)], view.spell(index)


@dataclass(frozen=True)
class Contrast(AbstractTarget):
    """Why this rather than that: the difference of two scores; rather than several: than their mean."""

    reads_rows = True

    this: int | str
    that: int | str | tuple[int | str, ...]

    def __post_init__(self) -> None:
        those = tuple(map(_choice, self.that if isinstance(self.that, tuple) else (self.that,)))
        if not those:
            raise InputError("contrast takes what is explained and at least one other: contrast(a, b)")
        if all(that == _choice(self.this) for that in those):
            raise InputError(f"a contrast needs two different answers, and {self.this!r} is on both sides")
        object.__setattr__(self, "this", _choice(self.this))
        object.__setattr__(self, "that", those[0] if len(those) == 1 else those)

    @property
    def those(self) -> tuple[int | str, ...]:
        return self.that if isinstance(self.that, tuple) else (self.that,)

    def terms(self, view: View) -> tuple[list[Term], str]:
        size = _classes(view).shape[-1]
        this, those = class_index(self.this, view, size), [class_index(that, view, size) for that in self.those]
        if all(that == this for that in those):
            raise InputError(
                f"a contrast needs two different answers, and {self.this!r} and {self.those[0]!r} are one class"
            )
        terms = [Term(p) for p in _places(view, this)]
        terms += [Term(p, -1 / len(those)) for that in those for p in _places(view, that)]
        return terms, f"{view.spell(this)} rather than {', '.join(map(view.spell, those))}"


def _choice(value: Any) -> int | str:
    if isinstance(value, (np.integer, Integral)) and not isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        raise InputError(f"contrast takes classes, labels or words, not {value!r}")
    return value


@dataclass(frozen=True)
class TokenLabel(AbstractTarget):
    """The label of one token (token classification).

    Default: of all ordinary tokens the one whose label other than "O" (or the first) is most certain.
    """

    position: int | None = None
    choice: int | str | None = None

    def terms(self, view: View) -> tuple[list[Term], str]:
        logits = view.outputs("logits")
        if logits.dim() != 2 or view.example.parts[0].source.kind in ("patch", "pixel"):
            raise InputError("whence.token(…) asks about one token, and this model labels none: pass a class")
        position = self._most_certain(view, logits) if self.position is None else self.position
        if not 0 <= position < logits.shape[0]:
            raise InputError(f"token {position} does not exist: the input has {logits.shape[0]} tokens")
        row = logits[position]
        index = int(row.argmax()) if self.choice is None else class_index(self.choice, view, row.shape[-1])
        return [Term((position, index))], f"{view.spell(index)} at token {position}"

    def _most_certain(self, view: View, logits: Tensor) -> int:
        shares = logits.softmax(-1)
        if self.choice is None:
            outside = list(view.labels).index("O") if "O" in view.labels else 0
            shares = shares.index_fill(1, torch.tensor([outside], device=shares.device), -1.0)
            certain = shares.max(-1).values
        else:
            certain = shares[:, class_index(self.choice, view, logits.shape[-1])]
        special = torch.from_numpy(view.example.special[: len(certain)]).to(certain.device)
        return int(certain.masked_fill(special, -2.0).argmax() if not bool(special.all()) else certain.argmax())


@dataclass(frozen=True)
class Answer(AbstractTarget):
    """The answer of a question-answering model: start logit + end logit of a span of the context.

    The best span by default; one that is given by its tokens or by its text.
    """

    start: int | None = None
    end: int | None = None
    text: str | None = None
    longest: int = 30
    """Tokens that an answer may have, where it is not given."""

    def terms(self, view: View) -> tuple[list[Term], str]:
        starts, ends = view.outputs("start_logits"), view.outputs("end_logits")
        if self.start is not None:
            first = self.start
            last = first + int(ends[first:].argmax()) if self.end is None else self.end
            if not 0 <= first <= last < len(starts):
                raise InputError(f"tokens {first} to {last} are no span of the input, which has {len(starts)} tokens")
        else:
            first, last = self._best(view, starts, ends)
        terms = [Term((first,), 1.0, "start_logits"), Term((last,), 1.0, "end_logits")]
        return terms, _written(view.example, first, last) or f"answer tokens {first} to {last}"

    def _best(self, view: View, starts: Tensor, ends: Tensor) -> tuple[int, int]:
        """The span of the highest score, among those that may be the answer."""
        tokens = torch.arange(len(starts), device=starts.device)
        gap = tokens[None] - tokens[:, None]
        allowed = (gap >= 0) & (gap < self.longest)
        context = torch.from_numpy(_context(view.example)).to(starts.device)
        allowed &= context[:, None] & context[None]
        if self.text is not None:
            allowed = torch.zeros_like(allowed)
            for first, last in _occurrences(view.example, self.text):
                allowed[first, last] = True
        scores = (starts[:, None] + ends[None]).masked_fill(~allowed, -torch.inf)
        best = int(scores.argmax())
        return divmod(best, len(starts))


def _context(example: Example) -> np.ndarray:
    """Which tokens an answer may have: those of the second text, or all ordinary ones where there is no second."""
    part = example.parts[0]
    special, sides = np.array(part.special or (False,) * part.count, dtype=bool), part.sides
    second = np.array([side == "second" for side in sides], dtype=bool) if sides else ~special
    found = second & ~special
    return found if found.any() else np.ones(len(special), dtype=bool)


def _occurrences(example: Example, answer: str) -> list[tuple[int, int]]:
    """First and last token of every place where the context reads `answer`: whole words, or parts where none is."""
    part = example.parts[0]
    if not part.offsets or example.text is None:
        raise InputError(
            f"the input came as tokens, so {answer!r} can't be looked up in its text: pass whence.answer(start, end)"
        )
    context = np.flatnonzero(_context(example))
    wanted = re.escape(answer.strip())
    for pattern in (rf"(?<!\w){wanted}(?!\w)", wanted) if wanted else ():
        found = []
        for match in re.finditer(pattern, example.text, re.IGNORECASE):
            begin, end = match.span()
            inside = [int(i) for i in context if part.offsets[i][0] < end and part.offsets[i][1] > begin]
            if inside:
                found.append((inside[0], inside[-1]))
        if found:
            return found
    raise InputError(f"the answer {answer!r} does not stand in the context; pass words that do")


def _written(example: Example, first: int, last: int) -> str:
    """The text from one token to another."""
    part = example.parts[0]
    if part.offsets and example.text is not None:
        spans = [(a, b) for a, b in part.offsets[first : last + 1] if b > a]  # a space may be a token of its own
        return example.text[spans[0][0] : spans[-1][1]].strip() if spans else ""
    return "".join(part.names[first : last + 1]).strip()


@dataclass(frozen=True)
class Custom(AbstractTarget):
    """Any function of the model's outputs that returns one score per example.

    It never sees padding that was not in the input: inputs of different lengths are run apart.
    """

    function: Callable[[Any], Tensor]

    def terms(self, view: View) -> tuple[list[Term], str]:
        raise NotImplementedError("a custom target is computed from the outputs of the whole batch")

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "custom").replace("<lambda>", "custom")


def contrast(this: int | str, *that: int | str) -> Contrast:
    """Explain why `this` rather than `that`: classes, labels, or words such as " Paris" and " London".

    Of several others it is their mean.
    """
    return Contrast(this, that)


def answer(start: int, end: int | None = None) -> Answer:
    """Explain the answer from token `start` to token `end` (by default the best end) of a question-answering model."""
    return Answer(start, end)


def token(position: int, label: int | str | None = None) -> TokenLabel:
    """Explain the label of one token; of a language model, which word comes behind it."""
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


def unknown_label(name: str, labels: Sequence[str]) -> UnknownNameError:
    return UnknownNameError("label", name, labels)
