"""The model and the examples under diagnosis: what every question asks of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.batch import Batch
from whence.core.replacement import MapChanges, observed, replaced
from whence.data.frames import is_frame
from whence.data.labelled import LabelledRow, labelled
from whence.errors import EmptyInputError, InputError, ModelError
from whence.models.adapter import AbstractAdapter
from whence.models.batching import batches
from whence.models.example import Example, ExampleBatch
from whence.models.targets import field_of

__all__ = ["Observed", "Subject"]


@dataclass(frozen=True)
class Observed:
    """A batch as the model sees it: what it predicts and where it looks."""

    batch: ExampleBatch
    probabilities: Tensor
    """(batch, class)"""
    maps: list[Tensor]
    """Per layer (batch, head, query, key)."""
    real: Tensor
    """(batch, token): not padding."""
    row: Tensor | None
    """(batch,): the token that the prediction is read from; None where all are taken together."""

    def predicting(self, attention: Tensor) -> Tensor:
        """The attention of the predicting token (batch, head, key); the mean over real tokens where there is none."""
        if attention.shape[2] == 1:
            return attention[:, :, 0]
        if self.row is None:
            weights = self.real[:, None, :, None].to(attention.dtype)
            return (attention * weights).sum(2) / weights.sum(2)
        index = self.row.view(-1, 1, 1, 1).expand(-1, attention.shape[1], 1, attention.shape[3])
        return attention.gather(2, index).squeeze(2)


@dataclass(frozen=True)
class Subject:
    """One model and one data set, encoded. `labels` are class numbers, or None where none were given."""

    model: AbstractAdapter
    examples: tuple[Example, ...]
    labels: tuple[int, ...] | None = None
    batch_tokens: int = 4096

    @classmethod
    def of(cls, model: AbstractAdapter, data: Any, *, truncate: bool = False, **options: Any) -> Subject:
        """Encode texts or (text, label) pairs, and check that the model can be diagnosed at all."""
        inputs, labels = _split(model, data)
        examples, _ = model.encode(inputs, truncate=truncate)
        subject = cls(model, tuple(examples), labels, **options)
        subject.check()
        return subject

    def __len__(self) -> int:
        return len(self.examples)

    def check(self) -> None:
        """Fail now rather than after minutes: the model must attend, and give a probability to each class."""
        if self.model.kind == "image":
            raise InputError("diagnose reads texts, and this model reads images. whence.attention shows its maps")
        if self.model.attends_across:
            raise InputError(
                "diagnose is about one sequence, and this model attends across two. whence.attention shows its maps"
            )
        self.observe([0])

    def sample(self, limit: int | None, seed: int) -> Subject:
        """At most `limit` examples, chosen by `seed`, in their order."""
        if limit is None or limit >= len(self):
            return self
        if limit < 1:
            raise InputError(f"limit={limit} leaves no examples: pass 1 or more")
        chosen = np.sort(np.random.default_rng(seed).permutation(len(self))[:limit])
        labels = None if self.labels is None else tuple(self.labels[i] for i in chosen)
        return replace(self, examples=tuple(self.examples[i] for i in chosen), labels=labels)

    def parts(self, copies: int = 1) -> list[list[int]]:
        """Batches of examples of about equal length, such that `copies` of each stay within the budget."""
        budget = max(self.batch_tokens // copies, max(e.cost for e in self.examples))
        return list(batches(self.model, self.examples, budget))

    def content(self, place: int) -> np.ndarray:
        """(token,): which tokens of an example are words of its own, not special ones such as [CLS]."""
        content: np.ndarray = ~self.examples[place].special
        return content

    def own(self, seen: Observed, n: int) -> Tensor:
        """Where the tokens of example `n` of a batch stand among its padding."""
        return seen.batch.places_of(seen.batch.names[0], n).to(seen.real.device)

    # -- running ---------------------------------------------------------------------------------------------

    def observe(self, part: Sequence[int]) -> Observed:
        """The model as it is on a batch."""
        batch = self.model.collate([self.examples[i] for i in part])
        found = observed(self.model.forward, batch)
        self.model.check_finite(found.outputs)
        tokens = batch.inputs[batch.names[0]].shape[1]
        maps = [m for m in found.maps if m.shape[-1] == tokens and m.shape[-2] in (1, tokens)]
        total = len(found.maps) + found.in_parts
        if not maps or len(maps) != total:
            raise ModelError(
                "diagnose needs attention over all tokens in every layer, and this model "
                + (f"has {len(maps)} such layers of {total}. " if total else "computes none. ")
                + "Explain it with a propagation method: whence.explain(model, text, method='lrp')"
            )
        real = torch.zeros(batch.examples, tokens, dtype=torch.bool, device=self.model.device)
        seen = Observed(batch, self._probabilities(found.outputs, batch, 1), maps, real, None)
        for n in range(batch.examples):
            real[n, self.own(seen, n)] = True
        return replace(seen, row=self._row(seen))

    def under(self, seen: Observed, changes: MapChanges, copies: int = 1) -> Tensor:
        """Probabilities (batch · copies, class) with attention replaced; copies of an example follow each other."""
        batch: Batch = seen.batch
        if copies > 1:
            shared = seen.batch.rows[0].shared
            inputs = {k: v if k in shared else v.repeat_interleave(copies, 0) for k, v in batch.inputs.items()}
            batch = Batch(inputs, batch.sources)
        with replaced(batch, changes) as inputs:
            outputs = self.model.forward(inputs)
        return self._probabilities(outputs, seen.batch, copies)

    def predictions(self) -> np.ndarray:
        """The predicted class of every example."""
        made = np.zeros(len(self), dtype=np.int64)
        for part in self.parts():
            made[part] = self.observe(part).probabilities.argmax(-1).cpu().numpy()
        return made

    def _probabilities(self, outputs: Any, batch: ExampleBatch, copies: int) -> Tensor:
        logits = field_of(outputs, "logits")
        if self.model.follows is not None and logits.dim() == 3 and all(e.rows for e in batch.rows):
            places = [batch.place(self.model.follows, n, e.rows[0]) for n, e in enumerate(batch.rows)]
            rows = torch.tensor(places, device=logits.device).repeat_interleave(copies)
            logits = logits[torch.arange(logits.shape[0], device=logits.device), rows]
        if logits.dim() != 2 or logits.shape[-1] < 2 or self.model.problem != "single":
            raise InputError(
                "diagnose compares distributions over classes, so it needs a classifier (or language model) with one "
                f"probability for each; this model gives {tuple(logits.shape[1:])} numbers for each example"
            )
        return logits.float().softmax(-1) if logits.dtype != torch.float64 else logits.softmax(-1)

    def _row(self, seen: Observed) -> Tensor | None:
        """The predicting token: the position that is read, the last token of causal models, else the first special."""
        own = [self.own(seen, n) for n in range(seen.batch.examples)]
        rows = seen.batch.rows
        if all(e.rows for e in rows):
            return torch.stack([places[e.rows[0]] for places, e in zip(own, rows, strict=True)])
        square = [m for m in seen.maps if m.shape[2] == m.shape[3] > 1]
        if square and all(torch.triu(m, 1).abs().max() == 0 for m in square):
            return torch.stack([places[-1] for places in own])
        if all(e.special[0] for e in rows):
            return torch.stack([places[0] for places in own])
        return None


def _split(model: AbstractAdapter, data: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Inputs and class numbers. Encoded tensors pass as they are."""
    if isinstance(data, Mapping) and any(isinstance(v, Tensor) for v in data.values()):
        return data, None
    if isinstance(data, str):
        raise InputError("diagnose takes a list of texts, or of (text, label) pairs; this is one text")
    items = data if isinstance(data, Path) or is_frame(data) else [_pair(item) for item in data]
    rows = labelled(items, model.labels) if not isinstance(items, list) or items else []
    if not rows:
        raise EmptyInputError("there are no examples: pass a list of texts, or of (text, label) pairs")
    given = [row.label is not None for row in rows]
    if not any(given):
        return [row.input for row in rows], None
    if not all(given):
        raise InputError(f"example {given.index(False)} has no label and others have: give all of them one, or none")
    return [row.input for row in rows], tuple(_numbers(model, [row.label for row in rows]))


def _pair(item: Any) -> Any:
    """(text, label): here a pair is nothing else."""
    return LabelledRow(*item) if isinstance(item, (tuple, list)) and len(item) == 2 else item


def _numbers(model: AbstractAdapter, labels: Sequence[Any]) -> Iterator[int]:
    for n, label in enumerate(labels):
        try:
            yield model.class_of(label)
        except InputError as error:
            raise InputError(f"example {n} has label {label!r}: {error}") from None
