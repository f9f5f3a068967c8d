"""The model and the examples under diagnosis: what every question asks of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.replacement import Changes, Replacement, replaced
from whence.errors import EmptyInputError, InputError, ModelError
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example, batches
from whence.models.targets import field_of

__all__ = ["Observed", "Subject"]


@dataclass(frozen=True)
class Observed:
    """A batch as the model sees it: what it predicts and where it looks."""

    examples: list[Example]
    places: list[int]
    """Which examples of the subject these are."""
    inputs: dict[str, Tensor]
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
        texts, labels = _split(model, data)
        examples, _ = model.encode(texts, truncate=truncate)
        subject = cls(model, tuple(examples), labels, **options)
        subject.check()
        return subject

    def __len__(self) -> int:
        return len(self.examples)

    def check(self) -> None:
        """Fail now rather than after minutes: the model must attend, and give a probability to each class."""
        if any("pixel_values" in e.inputs for e in self.examples):
            raise InputError("diagnose reads texts, and this model reads images. whence.attention shows its maps")
        if bool(getattr(self.model.config, "is_encoder_decoder", False)):
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
        budget = max(self.batch_tokens // copies, max(e.length for e in self.examples))
        return list(batches(self.examples, budget, equal_lengths=not self.model.mixes_lengths))

    def content(self, place: int) -> np.ndarray:
        """(token,): which tokens of an example are words of its own, not special ones such as [CLS]."""
        example = self.examples[place]
        length = example.inputs[self.model.sources[0]].shape[0]
        return ~np.array(example.special, dtype=bool) if example.special else np.ones(length, dtype=bool)

    def own(self, seen: Observed, n: int) -> slice:
        """Where the tokens of example `n` of a batch stand among its padding."""
        start = self.model.shift(seen.examples, n)
        return slice(start, start + seen.examples[n].inputs[self.model.sources[0]].shape[0])

    # -- running ---------------------------------------------------------------------------------------------

    def observe(self, part: Sequence[int]) -> Observed:
        """The model as it is on a batch."""
        examples = [self.examples[i] for i in part]
        inputs = self.model.collate(examples)
        mode = Replacement(len(examples), keep=True)
        with torch.no_grad(), mode:
            outputs = self.model.forward(inputs)
        self.model.check_finite(outputs)
        tokens = inputs[self.model.sources[0]].shape[1]
        maps = [m for m in mode.maps if m.shape[-1] == tokens and m.shape[-2] in (1, tokens)]
        total = len(mode.maps) + mode.in_parts
        if not maps or len(maps) != total:
            raise ModelError(
                "diagnose needs attention over all tokens in every layer, and this model "
                + (f"has {len(maps)} such layers of {total}. " if total else "computes none. ")
                + "Explain it with a propagation method: whence.explain(model, text, method='lrp')"
            )
        real = torch.zeros(len(examples), tokens, dtype=torch.bool, device=self.model.device)
        seen = Observed(examples, list(part), inputs, self._probabilities(outputs, examples, 1), maps, real, None)
        for n in range(len(examples)):
            real[n, self.own(seen, n)] = True
        return replace(seen, row=self._row(seen))

    def under(self, seen: Observed, changes: Changes, copies: int = 1) -> Tensor:
        """Probabilities (batch · copies, class) with attention replaced; copies of an example follow each other."""
        inputs = seen.inputs
        if copies > 1:
            inputs = {k: v.repeat_interleave(copies, 0) for k, v in inputs.items()}
        with replaced(changes, examples=len(seen.examples) * copies):
            outputs = self.model.forward(inputs)
        return self._probabilities(outputs, seen.examples, copies)

    def predictions(self) -> np.ndarray:
        """The predicted class of every example."""
        made = np.zeros(len(self), dtype=np.int64)
        for part in self.parts():
            made[part] = self.observe(part).probabilities.argmax(-1).cpu().numpy()
        return made

    def _probabilities(self, outputs: Any, examples: Sequence[Example], copies: int) -> Tensor:
        logits = field_of(outputs, "logits")
        if examples[0].position is not None and logits.dim() == 3:
            places = [e.position + self.model.shift(examples, n) for n, e in enumerate(examples)]  # type: ignore[operator]
            rows = torch.tensor(places, device=logits.device).repeat_interleave(copies)
            logits = logits[torch.arange(logits.shape[0], device=logits.device), rows]
        kind = getattr(self.model.config, "problem_type", None)
        if logits.dim() != 2 or logits.shape[-1] < 2 or kind in ("regression", "multi_label_classification"):
            raise InputError(
                "diagnose compares distributions over classes, so it needs a classifier (or language model) with one "
                f"probability for each; this model gives {tuple(logits.shape[1:])} numbers for each example"
            )
        return logits.float().softmax(-1) if logits.dtype != torch.float64 else logits.softmax(-1)

    def _row(self, seen: Observed) -> Tensor | None:
        """The predicting token: the position that is read, the last token of causal models, else the first special."""
        shifts = torch.tensor([self.own(seen, n).start for n in range(len(seen.examples))], device=seen.real.device)
        positions = [e.position for e in seen.examples]
        if all(p is not None for p in positions):
            return shifts + torch.tensor(positions, device=shifts.device)
        square = [m for m in seen.maps if m.shape[2] == m.shape[3] > 1]
        if square and all(torch.triu(m, 1).abs().max() == 0 for m in square):
            return shifts + seen.real.sum(-1) - 1
        if all(e.special and e.special[0] for e in seen.examples):
            return shifts
        return None


def _split(model: AbstractAdapter, data: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Texts and class numbers from a list of texts or of (text, label) pairs. Encoded tensors pass as they are."""
    if isinstance(data, Mapping):
        return data, None
    if isinstance(data, str):
        raise InputError("diagnose takes a list of texts, or of (text, label) pairs; this is one text")
    items = list(data)
    if not items:
        raise EmptyInputError("there are no examples: pass a list of texts, or of (text, label) pairs")
    labelled = [isinstance(item, (tuple, list)) and len(item) == 2 for item in items]
    if not any(labelled):
        return items, None
    if not all(labelled):
        raise InputError(f"example {labelled.index(False)} has no label and others have: give all of them one, or none")
    return [text for text, _ in items], tuple(_numbers(model, [label for _, label in items]))


def _numbers(model: AbstractAdapter, labels: Sequence[Any]) -> Iterator[int]:
    for n, label in enumerate(labels):
        text = str(label).strip()
        number = int(text) if text.lstrip("-").isdigit() and text not in model.labels else model.find(text)
        if model.labels and not 0 <= number < len(model.labels):
            raise InputError(f"example {n} has label {label!r}; the model's classes are 0 to {len(model.labels) - 1}")
        yield number
