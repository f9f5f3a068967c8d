"""One window of encoded rows to results: batches by length, and a bad row spoils nothing but itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from whence.errors import InputError, WhenceError
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example, batches
from whence.models.targets import AbstractTarget, Span
from whence.results import Explanation
from whence.runner.inputs import Row

__all__ = ["Encoded", "Explainer", "Result", "message_of"]

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
    text = " ".join(str(error).split())
    return text if isinstance(error, WhenceError) else f"{type(error).__name__}: {text}"


@dataclass(frozen=True)
class Explainer:
    """Explains windows of rows."""

    adapter: AbstractAdapter
    method: AbstractMethod
    target: Any = None
    batch_tokens: int = 2048
    scores: str = "float32"
    special_tokens: bool = True

    def window(self, rows: Sequence[Row], encoded: Sequence[Encoded]) -> list[Result]:
        """Results in the order of the rows."""
        results = [Result(row.number, row.id, row.shown) for row in rows]
        for result, item in zip(results, encoded, strict=True):
            if isinstance(item, str):
                result.error = item
        good = [n for n, item in enumerate(encoded) if isinstance(item, Example)]
        examples = [e for e in encoded if isinstance(e, Example)]
        for part in self.parts(examples):
            chosen = [good[i] for i in part]
            begin = time.perf_counter()
            self._batch([results[n] for n in chosen], [examples[i] for i in part], [rows[n] for n in chosen])
            spent = (time.perf_counter() - begin) / len(part)
            for n, i in zip(chosen, part, strict=True):
                results[n].seconds, results[n].length = spent, examples[i].length
        return results

    def parts(self, examples: Sequence[Example]) -> list[list[int]]:
        """Batches, as indices."""
        return list(batches(examples, self.batch_tokens, equal_lengths=not self.adapter.mixes_lengths))

    def _batch(self, results: list[Result], examples: list[Example], rows: list[Row]) -> None:
        """Fill in results. If the batch fails, its halves or its rows are tried alone."""
        try:
            targets = [self.target_of(row, example) for row, example in zip(rows, examples, strict=True)]
            made = self.method.explain(self.adapter, examples, targets)
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            self._retry(results, examples, rows, error, size=(len(rows) + 1) // 2)
        except Exception as error:
            self._retry(results, examples, rows, error, size=1)
        else:
            for result, exp in zip(results, made, strict=True):
                self.fill(result, exp)

    def _retry(
        self, results: list[Result], examples: list[Example], rows: list[Row], error: Exception, *, size: int
    ) -> None:
        if len(rows) == 1:
            results[0].error = message_of(error)
            return
        for i in range(0, len(rows), size):
            part = slice(i, i + size)
            self._batch(results[part], examples[part], rows[part])

    def target_of(self, row: Row, example: Example) -> AbstractTarget:
        choice = row.target if row.target is not None else self.target
        if isinstance(choice, str) and choice not in self.adapter.labels and choice.lstrip("-").isdigit():
            choice = int(choice)  # CSV has no numbers
        if choice is None and example.continuation:
            return Span()
        return self.adapter.target(choice)

    def fill(self, result: Result, exp: Explanation) -> None:
        """Put an explanation into its row."""
        exp = exp if self.special_tokens else exp.without_special()
        flat = exp.scores.reshape(-1)
        problem = _problem(flat, exp.target_score, self.scores)
        if problem:
            result.error = problem
            return
        result.tokens, result.scores = exp.tokens or None, flat.astype(self.scores)
        result.word, result.shape = exp.word_ids or None, exp.scores.shape if exp.is_image else None
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
