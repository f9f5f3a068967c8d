"""Which sentences of which documents each statement of an answer came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import InputError
from whence.results.percents import percent
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, spelled
from whence.results.trace import Trace

__all__ = ["Citations", "CitedSentence", "Statement", "shares_of"]

FORMAT = 1
NOTABLE = 0.1
"""Share of a statement from which a sentence is cited."""


def shares_of(amounts: Mapping[Any, float]) -> dict[Any, float]:
    """What is positive, as shares of one.

    >>> shares_of({"a": 3.0, "b": -1.0, "c": 1.0})
    {'a': 0.75, 'b': 0.0, 'c': 0.25}
    """
    total = sum(max(amount, 0.0) for amount in amounts.values())
    return {name: max(amount, 0.0) / total if total > 0 else 0.0 for name, amount in amounts.items()}


@dataclass(frozen=True)
class CitedSentence:
    """A sentence of a document, and how much of a statement came from it."""

    document: int
    """Number of the document, from 0."""
    text: str
    place: tuple[int, int]
    """Where it stands in the document: its first character, and the one behind its last."""
    relevance: float
    """The sum of its tokens' scores."""
    share: float
    """Of all that speaks for the statement. Shares of sentences sum to the share of their document."""


@dataclass(frozen=True)
class Statement:
    """A sentence of the answer, and what it came from."""

    text: str
    sources: tuple[CitedSentence, ...]
    """Every sentence of every document, the strongest first."""
    relevance: tuple[float, ...]
    """Of each document: the sum of its tokens' scores."""
    documents: tuple[float, ...]
    """One share for each document."""
    rest: dict[str, float]
    """Shares of what is no document: "question", "instructions", "earlier text" (what the model wrote before), and
    "memory" (biases and other constants of the model)."""
    target_score: float = float("nan")

    @property
    def elsewhere(self) -> float:
        """The share that came from no document; all of it where nothing speaks for the statement."""
        return 1 - sum(self.documents)

    @property
    def cited(self) -> tuple[CitedSentence, ...]:
        """The sentences that are worth a mention: none where the statement came from elsewhere."""
        return tuple(source for source in self.sources if source.share >= NOTABLE)


@dataclass(frozen=True, eq=False)
class Citations(Drawn):
    """An answer with the documents that it came from.

    Shares are of what speaks for the answer: positive relevance, of documents and of what is none, sums to one. The
    amounts themselves, negative ones too, are in `relevance`, and in `trace` token by token.
    """

    question: str
    answer: str
    names: tuple[str, ...]
    """What each document is called."""
    texts: tuple[str, ...]
    statements: tuple[Statement, ...]
    documents: tuple[float, ...]
    """One share for each document, for the answer as a whole."""
    rest: dict[str, float]
    trace: Trace | None = None
    """The statements × the tokens of the prompt."""

    @property
    def elsewhere(self) -> float:
        """The share of the answer that came from no document: question, instructions, earlier text, memory."""
        return 1 - sum(self.documents)

    def top(self, n: int = 5) -> list[tuple[str, float]]:
        """The `n` documents that the answer came from most, strongest first."""
        best = np.argsort([-share for share in self.documents], kind="stable")[:n]
        return [(self.names[i], self.documents[i]) for i in best]

    # -- saving ----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "question": self.question,
            "answer": self.answer,
            "documents": [
                {"name": name, "text": text, "share": share}
                for name, text, share in zip(self.names, self.texts, self.documents, strict=True)
            ],
            "elsewhere": self.elsewhere,
            "rest": dict(self.rest),
            "statements": [{**asdict(statement), "elsewhere": statement.elsewhere} for statement in self.statements],
            "trace": None if self.trace is None else self.trace.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Citations:
        if "statements" not in data or data.get("format") != FORMAT:
            raise InputError("this file holds no citations that this version of whence can read")
        return cls(
            question=data["question"],
            answer=data["answer"],
            names=tuple(document["name"] for document in data["documents"]),
            texts=tuple(document["text"] for document in data["documents"]),
            statements=tuple(map(_statement, data["statements"])),
            documents=tuple(document["share"] for document in data["documents"]),
            rest=dict(data["rest"]),
            trace=None if data["trace"] is None else Trace.from_dict(data["trace"]),
        )

    def _writers(self) -> Writers:
        return {".json": lambda: spelled(self.to_dict())}

    @classmethod
    def load(cls, path: str | Path) -> Citations:
        """Read what `save` wrote as .json."""
        with opened(path, "whence.Citations", ".json") as (data, _):
            return cls.from_dict(data)

    def __repr__(self) -> str:
        best = ", ".join(f"{name!r} {percent(share, 0)}" for name, share in self.top(2))
        return f"<Citations of {self.answer!r}: {best}, elsewhere {percent(self.elsewhere, 0)}>"


def _statement(data: Mapping[str, Any]) -> Statement:
    sources = tuple(CitedSentence(**{**source, "place": tuple(source["place"])}) for source in data["sources"])
    return Statement(
        text=data["text"],
        sources=sources,
        relevance=tuple(data["relevance"]),
        documents=tuple(data["documents"]),
        rest=dict(data["rest"]),
        target_score=data["target_score"],
    )
