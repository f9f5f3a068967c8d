"""One window of encoded rows to results: a bad row spoils nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.data.rows import Row, writable
from whence.errors import InputError, WhenceError
from whence.methods.explaining import explain_examples
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.embedding import Embeds, similar_to
from whence.models.example import Example
from whence.options import whole_number
from whence.results import Explanation

__all__ = ["Encoded", "Result", "WindowExplainer", "check_kind", "message_of"]

Encoded = Example | str
"""An encoded row, or why it can't be encoded."""
LARGEST_HALF = 65504.0


@dataclass(slots=True)
class Result:
    """One row of the output; the fields are the columns of a shard."""

    row: int
    id: str
    text: str | None
    tokens: tuple[str, ...] | None = None
    scores: np.ndarray | None = None
    word: tuple[int | None, ...] | None = None
    shape: tuple[int, ...] | None = None
    prediction: str | None = None
    probability: float | None = None
    target: str | None = None
    target_score: float | None = None
    receipt_inputs: float | None = None
    receipt_sinks: list[dict[str, Any]] | None = None
    receipt_error: float | None = None
    error: str | None = None
    seconds: float = 0.0
    """Not a column: time differs from run to run, and shards are the same to the byte."""
    length: int = 0


def message_of(error: BaseException) -> str:
    """An error as it stands in the output."""
    text = writable(" ".join(str(error).split()))
    return text if isinstance(error, WhenceError) else f"{type(error).__name__}: {text}"


@dataclass(frozen=True)
class WindowExplainer:
    """Explains windows of rows."""

    adapter: AbstractAdapter
    method: AbstractMethod
    target: Any = None
    batch_tokens: int = 2048
    scores: str = "float32"
    special_tokens: bool = True

    def window(
        self, rows: Sequence[Row], encoded: Sequence[Encoded], progress: Callable[[int], None] = lambda rows: None
    ) -> list[Result]:
        """Results in the order of the rows; `progress` is told of every batch how many rows it had."""
        return self.explained(rows, encoded, progress)()

    def explained(
        self, rows: Sequence[Row], encoded: Sequence[Encoded], progress: Callable[[int], None] = lambda rows: None
    ) -> Callable[[], list[Result]]:
        """The same, with what is left to do when the model is done in a function that any thread may call."""
        results = [Result(row.number, row.id, row.shown) for row in rows]
        for result, item in zip(results, encoded, strict=True):
            if isinstance(item, str):
                result.error = item
        good = [n for n, item in enumerate(encoded) if isinstance(item, Example)]
        examples = [item for item in encoded if isinstance(item, Example)]

        def timed(indices: list[int], seconds: float) -> None:
            for i in indices:
                results[good[i]].seconds, results[good[i]].length = seconds / len(indices), examples[i].cost
            progress(len(indices))

        made = explain_examples(
            self.adapter,
            self.method,
            examples,
            [self.choice_of(rows[n]) for n in good],
            batch_tokens=self.batch_tokens,
            apart=True,
            threads=2 if self.adapter.replays else 1,  # rows of one batch are made while the GPU has the next
            on_batch=timed,
        )
        if outside := sum(result.length == 0 for result in results):  # those that came into no batch
            progress(outside)

        def filled() -> list[Result]:
            for n, found in zip(good, made, strict=True):
                if isinstance(found, Explanation):
                    self.fill(results[n], found)
                else:
                    results[n].error = message_of(found)
            return results

        return filled

    def choice_of(self, row: Row) -> Any:
        """The target of a row, as the user gave it; of an embedding, a text in a column is what it is compared with."""
        if isinstance(self.adapter, Embeds) and isinstance(row.target, str):
            return similar_to(row.target)
        choice = row.target if row.target is not None else self.target
        number = whole_number(choice) if isinstance(choice, str) and choice not in self.adapter.labels else None
        return choice if number is None else number  # CSV has no numbers

    def fill(self, result: Result, exp: Explanation) -> None:
        """Put an explanation into its row."""
        exp = exp if self.special_tokens else exp.without_special()
        flat = exp.scores.reshape(-1)
        problem = _problem(flat, exp.target_score, self.scores)
        if problem:
            result.error = problem
            return
        result.tokens, result.scores = exp.tokens or None, flat.astype(self.scores)
        result.word, result.shape = exp.word_ids or None, exp.scores.shape if exp.scores.ndim > 1 else None
        result.prediction = exp.prediction.label or None
        result.probability = exp.prediction.probabilities[0] if exp.prediction.probabilities else None
        result.target, result.target_score = exp.target, exp.target_score
        if receipt := exp.conservation:
            result.receipt_inputs, result.receipt_error = receipt.inputs, receipt.error
            if receipt.complete:
                result.receipt_sinks = [{"kind": k, "amount": v} for k, v in sorted(receipt.sinks.items())]


def _problem(scores: np.ndarray, target_score: float, kind: str) -> str | None:
    if not np.isfinite(scores).all() or not np.isfinite(target_score):
        return "a score is not finite"
    if kind == "float16" and scores.size and np.abs(scores).max() > LARGEST_HALF:
        return f"a score of {np.abs(scores).max():.3g} is too large for float16: use --scores float32"
    return None


def check_kind(scores: str) -> None:
    """Refuse a type of scores that is not offered."""
    if scores not in ("float16", "float32"):
        raise InputError(f"scores={scores!r}: choose float16 or float32")
