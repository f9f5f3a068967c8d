"""What a model gives: where each example's outputs lie, what they are called, scores of targets, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.numerics import all_finite, at_hand, widened
from whence.errors import InputError, ModelError, NumericsError
from whence.models.example import Example, ExampleBatch
from whence.models.held_module import HeldModule
from whence.models.inspecting import labels_of
from whence.models.targets import CONSTANT, Term, View, Weights, field_of, unknown_label
from whence.options import whole_number
from whence.results import Prediction

__all__ = ["NamedOutputs"]


class NamedOutputs(HeldModule):
    """A module whose outputs are scores of classes, words, boxes, … that have names."""

    speaks: ClassVar[bool] = False
    """Whether its outputs are tokens of a vocabulary, not classes."""
    classifies: ClassVar[bool] = True
    """Whether its outputs are classes, for `labels=` to name."""
    fields: ClassVar[tuple[str, ...]] = ("logits",)
    """The outputs that targets read."""

    def __init__(self, module: nn.Module, *, name: str = "", labels: Sequence[str] = ()):
        super().__init__(module, name)
        self.labels = tuple(labels) or (labels_of(module) if self.classifies and not self.speaks else ())

    @property
    def follows(self) -> str | None:
        """The source whose tokens the outputs follow, one row for each; None where there is one row for all."""
        return None

    def brought_home(self, outputs: Any) -> Any:
        """The outputs that targets read, on the CPU in one transfer: each number that is asked of a GPU is a wait."""
        if self.device.type == "cpu":
            return outputs
        try:
            return {field: at_hand(field_of(outputs, field)) for field in self.fields}
        except InputError:
            return outputs

    def sum_of_terms(
        self,
        outputs: Any,
        batch: ExampleBatch,
        terms: Sequence[Sequence[Term]],
        examples: Sequence[int] | None = None,
    ) -> Tensor:
        """One score for each list of terms, in few indexing operations.

        `examples` says whose each list is; the n-th is the n-th example's by default.
        """
        owners = range(len(terms)) if examples is None else examples
        terms = [self.in_place(outputs, n, own) for n, own in zip(owners, terms, strict=True)]
        total: Tensor | None = None
        for field in sorted({t.field for own in terms for t in own} - {CONSTANT}):
            value = field_of(outputs, field)
            rows = [(n, t) for n, own in enumerate(terms) for t in own if t.field == field]
            found = self._entries(value, batch, [(owners[n], t) for n, t in rows])
            weights = torch.tensor([t.weight for _, t in rows], device=value.device, dtype=found.dtype)
            picked = found * weights
            owner = torch.zeros(len(terms), len(rows), device=value.device, dtype=found.dtype)
            owner[[n for n, _ in rows], list(range(len(rows)))] = 1
            part = owner @ picked
            total = part if total is None else total + part
        assert total is not None
        constants = [sum(t.weight for t in own if t.field == CONSTANT) for own in terms]
        return total + total.new_tensor(constants) if any(constants) else total

    def in_place(self, outputs: Any, n: int, terms: Sequence[Term]) -> Sequence[Term]:
        """Terms of example `n` in these outputs, where a model numbers them anew for every input."""
        return terms

    def _entries(self, value: Tensor, batch: ExampleBatch, rows: Sequence[tuple[int, Term]]) -> Tensor:
        """The entries of an output that terms name, one for each; the sum over its area where a term has one."""
        places = [(n, *self.placed_in(batch, n, t.place)) for n, t in rows]
        if all(t.over is None for _, t in rows):
            where = tuple(torch.tensor(column, device=value.device) for column in zip(*places, strict=True))
            return widened(value[where])
        if all(isinstance(t.over, Weights) for _, t in rows):  # one by one, each would go back through all outputs
            where = tuple(torch.tensor(column, device=value.device) for column in zip(*places, strict=True))
            weights = np.stack([t.over.held for _, t in rows if isinstance(t.over, Weights)])
            return (widened(value[where]) * torch.from_numpy(weights).to(value.device)).sum(-1)
        entries = [widened(value[place]) for place in places]
        areas = [None if t.over is None else torch.from_numpy(t.over.held).to(value.device) for _, t in rows]
        return torch.stack([e if a is None else (e * a).sum() for e, a in zip(entries, areas, strict=True)])

    def placed_in(self, batch: ExampleBatch, n: int, place: tuple[int, ...]) -> tuple[int, ...]:
        """A place in an example's own output, in the padded output of the batch."""
        if self.follows is None:
            return place
        row = batch.place(self.follows, n, place[0])
        return (row if batch.kept is None else batch.kept_at[row], *place[1:])

    def output_rows(self, outputs: Any, batch: ExampleBatch, n: int, field: str, rows: Sequence[int]) -> Tensor:
        """A field of the output of example `n` at some of its tokens."""
        if batch.kept is None:
            return self.own_output(outputs, batch, n, field)[list(rows)]
        return field_of(outputs, field)[n, [self.placed_in(batch, n, (row,))[0] for row in rows]]

    def own_output(self, outputs: Any, batch: ExampleBatch, n: int, field: str) -> Tensor:
        """A field of the output of example `n`, without padding."""
        if field not in self.fields:
            raise InputError(
                f"{self.called} gives {' and '.join(self.fields)}, not {field}: this target is not for it. "
                "Leave target= out, or pass target=lambda outputs: …"
            )
        value = field_of(outputs, field)
        if self.follows is None:
            return value[n]
        tokens = batch.inputs[self.follows].shape[1]
        if value.shape[1] != tokens:
            raise ModelError(
                f"the model gives {value.shape[1]} rows of {field} for {tokens} tokens: they can't be matched. "
                "Pass target=lambda outputs: … to say what to explain"
            )
        return batch.own(self.follows, n, value)

    def view(self, outputs: Any, batch: ExampleBatch, n: int) -> View:
        return View(
            outputs=lambda field: self.own_output(outputs, batch, n, field).detach().float(),
            at=lambda field, rows: self.output_rows(outputs, batch, n, field, rows).detach().float(),
            labels=batch.rows[n].labels or self.labels,
            spell=partial(self.spelled, batch.rows[n]),
            find=partial(self.found, batch.rows[n]),
            read=self.read if not batch.rows[n].labels else lambda ids: " ".join(batch.rows[n].labels[i] for i in ids),
            example=batch.rows[n],
            fields=self.fields,
            pieces=lambda: self.pieces_written(batch.rows[n]),
        )

    def spelled(self, example: Example, index: int) -> str:
        """An output for an example in words."""
        return example.labels[index] if example.labels else self.spell(index)

    def found(self, example: Example, label: str) -> int:
        """The output for an example of a name."""
        return _place_of(label, example.labels) if example.labels else self.find(label)

    def spell(self, index: int) -> str:
        """An output in words."""
        return self.labels[index] if index < len(self.labels) else f"class {index}"

    def read(self, ids: Sequence[int]) -> str:
        """Several outputs in words, one after the other."""
        return " ".join(map(self.spell, ids))

    def pieces_written(self, example: Example) -> tuple[str, ...]:
        """The tokens that are written in an example, as they read one after the other."""
        return tuple(map(self.spell, example.written))

    def find(self, label: str) -> int:
        """The output of a name."""
        return _place_of(label, self.labels)

    def class_of(self, label: Any, example: Example | None = None) -> int:
        """The class that a label of a data set means: a name, a number, or a number as text."""
        labels = example.labels if example is not None and example.labels else self.labels
        if isinstance(label, str):
            known = {name.lower() for name in labels}
            text = label if self.speaks else label.strip()
            if text.lower() in known or whole_number(text.strip()) is None:
                return self.find(text) if example is None else self.found(example, text)
        try:
            number = int(label)
        except (TypeError, ValueError):
            number = -1
        if not isinstance(label, str) and (number != label or isinstance(label, bool)):
            raise InputError(f"{label!r} is no class: pass the name of one, or its number")
        if labels and not 0 <= number < len(labels):
            shown = ", ".join(f"{n}: {name}" for n, name in enumerate(labels[:8]))
            raise InputError(f"the model has no class {number}; its classes are {shown}")
        return number

    def predictions(self, outputs: Any, batch: ExampleBatch) -> list[Prediction]:
        """What the model said of each example: the classes and their scores, best first (at most ten)."""
        nothing = [Prediction()] * batch.examples
        if "logits" not in self.fields:
            return nothing
        try:
            outputs = self.brought_home(outputs)
            logits = field_of(outputs, "logits").detach().float()
        except InputError:
            return nothing
        if self.follows is not None:
            if not all(e.rows for e in batch.rows):
                return nothing
            rows = [self.output_rows(outputs, batch, n, "logits", e.rows[:1]) for n, e in enumerate(batch.rows)]
            logits = torch.cat(rows).detach().float()
        if logits.dim() != 2:
            return nothing
        top = logits.topk(min(10, logits.shape[1]))
        shares = self.probabilities(logits)
        likely = shares.gather(1, top.indices).tolist() if shares is not None else [()] * batch.examples
        return [
            Prediction(tuple(self.spelled(e, index) for index in best), tuple(scores), tuple(p))
            for e, best, scores, p in zip(batch.rows, top.indices.tolist(), top.values.tolist(), likely, strict=True)
        ]

    @property
    def problem(self) -> Literal["single", "multi", "regression"]:
        """What the outputs are: one class of several, any number of classes, or numbers."""
        kind = getattr(self.config, "problem_type", None)
        if kind == "regression":
            return "regression"
        return "multi" if kind == "multi_label_classification" else "single"

    def probabilities(self, logits: Tensor) -> Tensor | None:
        if self.problem == "regression" or logits.shape[-1] == 1:
            return None
        # softmax(-1) would wake all threads of the CPU for a few numbers
        return logits.sigmoid() if self.problem == "multi" else (logits - logits.logsumexp(-1, keepdim=True)).exp()

    def check_finite(self, outputs: Any) -> None:
        """A clear error for NaN weights and overflow, in place of an explanation made of NaN."""
        try:
            logits = field_of(outputs, self.fields[0])
        except InputError:
            return
        if all_finite(logits) or (torch.isneginf(logits).any() and not torch.isnan(logits).any()):
            return
        broken = next((n for n, p in self.module.named_parameters() if not torch.isfinite(p).all()), None)
        if broken:
            raise NumericsError(f"the model's output is not finite: parameter {broken!r} holds NaN or infinity")
        if logits.dtype == torch.float16:
            raise NumericsError(
                "the model's output overflows in float16. Load it with dtype='bfloat16' or dtype='float32'"
            )
        raise NumericsError("the model's output is not finite, though its weights are: check the input values")


def _place_of(label: str, labels: Sequence[str]) -> int:
    """Where a name stands among others, however it is written."""
    for known, wanted in ((labels, label), ([name.lower() for name in labels], label.lower())):
        if wanted in known:
            return known.index(wanted)
    if not labels:
        raise InputError(
            f"the model has no names for its outputs, so {label!r} is none of them: pass a number, or name "
            "them: whence.load(model, labels=[ … ])"
        )
    raise unknown_label(label, labels)
