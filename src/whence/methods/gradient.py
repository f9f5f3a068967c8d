"""What methods over plain gradients share: one target, decided on the input, asked again at other values of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.batch import Batch
from whence.core.gradients import Gradients, gradients
from whence.core.interception import Change
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.batching import budget_of
from whence.models.example import Example, ExampleBatch
from whence.models.targets import AbstractTarget, Custom, Term
from whence.models.word_head import KEEP
from whence.progress import track
from whence.results import Prediction

__all__ = ["Asked", "ask"]


@dataclass(frozen=True)
class Asked:
    """A batch, its gradients at the input itself, and the targets that were decided there."""

    model: AbstractAdapter
    batch: ExampleBatch
    here: Gradients
    names: list[str]
    terms: list[list[Term]]
    targets: Sequence[AbstractTarget]
    predictions: list[Prediction]

    @property
    def examples(self) -> tuple[Example, ...]:
        return self.batch.rows

    def facts(self, n: int) -> dict[str, Any]:
        """What is known of example `n` whatever its scores: the target and the prediction."""
        return {
            "target": self.names[n],
            "target_score": float(self.here.target[n]),
            "prediction": self.predictions[n],
        }

    def scores(self, relevance: dict[str, Tensor], n: int, row: int | None = None) -> np.ndarray:
        """Scores of example `n`, padding cut away, from row `row` of a batch (its own, unless rows are copies)."""
        own = n if row is None else row
        rows = {name: r[own : own + 1].expand(len(self.examples), *r.shape[1:]) for name, r in relevance.items()}
        return self.model.scores_of(rows, self.batch, n)

    def again(self, rows: list[int], change: Change) -> Gradients:
        """Gradients with other values at the leaves. Row r of the batch is a copy of example `rows[r]`."""
        picked = torch.tensor(rows)
        shared = {*self.examples[0].shared, KEEP}
        inputs = {
            name: value if name in shared else value[picked.to(value.device)]
            for name, value in self.batch.inputs.items()
        }
        copies = Batch(inputs, self.batch.sources)
        return gradients(self.model.forward, copies, target=lambda outputs: self._score(outputs, rows), change=change)

    def _score(self, outputs: Any, rows: list[int]) -> Tensor:
        places = {source: [held[n] for n in rows] for source, held in self.batch.places.items()}
        own = tuple(self.examples[n] for n in rows)
        copies = replace(self.batch, places=places, rows=own)
        if isinstance(self.targets[0], Custom):
            return self.targets[0].function(outputs).reshape(len(rows))
        return self.model.sum_of_terms(outputs, copies, [self.terms[n] for n in rows])

    def in_chunks(self, copies: int, what: str) -> Iterator[tuple[list[int], list[int]]]:
        """`copies` of every example in batches that fit: (number of the example, number of the copy) of each row."""
        longest = max(e.cost for e in self.examples)
        size = max(1, budget_of(self.model.device, "score") // longest)
        if self.model.beside(self.examples) == "alone" or isinstance(self.targets[0], Custom):
            size = 1
        pairs = [(n, k) for n in range(len(self.examples)) for k in range(copies)]
        chunks = [pairs[i : i + size] for i in range(0, len(pairs), size)]
        for chunk in track(chunks, what, len(pairs), map(len, chunks)):
            yield [n for n, _ in chunk], [k for _, k in chunk]


def ask(model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]) -> Asked:
    """Gradients of a batch at the input itself."""
    batch = model.collate(examples, targets)
    scores = TargetScores(model, batch, targets)
    here = gradients(model.forward, batch, target=scores)
    return Asked(model, batch, here, scores.names, scores.terms, targets, model.predictions(here.outputs, batch))
