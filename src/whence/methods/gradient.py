"""What methods over plain gradients share: one target, decided on the input, asked again at other values of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.gradients import Gradients, gradients
from whence.core.interception import Change
from whence.methods.perturbation import budget_of, features_of
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example
from whence.models.targets import AbstractTarget, Custom, Term, sum_of_terms
from whence.progress import track

__all__ = ["Asked", "ask"]


@dataclass(frozen=True)
class Asked:
    """A batch, its gradients at the input itself, and the targets that were decided there."""

    model: AbstractAdapter
    examples: Sequence[Example]
    batch: dict[str, Tensor]
    here: Gradients
    names: list[str]
    terms: list[list[Term]]
    custom: Custom | None

    def facts(self, n: int) -> dict[str, Any]:
        """What is known of example `n` whatever its scores: the target and the prediction."""
        return {
            "target": self.names[n],
            "target_score": float(self.here.target[n]),
            "prediction": self.model.prediction(self.here.outputs, self.examples, n),
        }

    def scores(self, relevance: dict[str, Tensor], n: int, row: int | None = None) -> np.ndarray:
        """Scores of example `n`, padding cut away, from row `row` of a batch (its own, unless rows are copies)."""
        own = n if row is None else row
        rows = {name: r[own : own + 1].expand(len(self.examples), *r.shape[1:]) for name, r in relevance.items()}
        return self.model.scores_of(rows, self.examples, n)

    def span(self, source: str, n: int) -> slice:
        """Where the elements of example `n` stand in the padded input `source`, along its first axis."""
        length = self.examples[n].inputs[source].shape[0]
        on_left = length < self.batch[source].shape[1] and not source.startswith("decoder")
        start = self.model.shift(self.examples, n) if on_left else 0
        return slice(start, start + length)

    def again(self, rows: list[int], change: Change) -> Gradients:
        """Gradients with other values at the leaves. Row r of the batch is a copy of example `rows[r]`."""
        picked = torch.tensor(rows)
        return gradients(
            self.model.forward,
            {name: value[picked.to(value.device)] for name, value in self.batch.items()},
            sources=self.model.sources,
            target=lambda outputs: self._score(outputs, rows),
            change=change,
        )

    def _score(self, outputs: Any, rows: list[int]) -> Tensor:
        if self.custom is not None:
            return self.custom.function(outputs).reshape(len(rows))
        return sum_of_terms(outputs, [self.terms[n] for n in rows])

    def in_chunks(self, copies: int, what: str) -> Iterator[tuple[list[int], list[int]]]:
        """`copies` of every example in batches that fit: (number of the example, number of the copy) of each row."""
        longest = max(_size(self.model, e) for e in self.examples)
        size = max(1, budget_of(self.model) // longest)
        pairs = [(n, k) for n in range(len(self.examples)) for k in range(copies)]
        chunks = [pairs[i : i + size] for i in range(0, len(pairs), size)]
        for chunk in track(chunks, what, len(pairs), map(len, chunks)):
            yield [n for n, _ in chunk], [k for _, k in chunk]


def ask(model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]) -> Asked:
    """Gradients of a batch at the input itself."""
    batch = model.collate(examples)
    custom = targets[0] if isinstance(targets[0], Custom) else None
    terms: list[list[Term]] = []
    names: list[str] = []

    def target(outputs: Any) -> Tensor:
        model.check_finite(outputs)
        if custom is None:
            chosen = [t.terms(model.view(outputs, examples, n)) for n, t in enumerate(targets)]
            terms.extend(part for part, _ in chosen)
            names.extend(name for _, name in chosen)
            return sum_of_terms(outputs, terms)
        names.extend([custom.name] * len(examples))
        return custom.function(outputs).reshape(len(examples))

    here = gradients(model.forward, batch, sources=model.sources, target=target)
    return Asked(model, examples, batch, here, names, terms, custom)


def _size(model: AbstractAdapter, example: Example) -> int:
    """What an example costs: its tokens, or patches."""
    return features_of(model, example).count if len(model.sources) == 1 else example.length
