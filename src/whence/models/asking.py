"""The targets of a batch as a function of the model's outputs, as every pass wants it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor

from whence.core.layout import CannotSplit
from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.example import ExampleBatch
from whence.models.targets import AbstractTarget, Class, Custom, Predicted, Term, class_index, field_of

__all__ = ["TargetScores", "TargetsOfOne"]


class TargetScores:
    """Outputs to one score per example. Once asked, it knows what the scores are called and which outputs they are."""

    def __init__(self, model: AbstractAdapter, batch: ExampleBatch, targets: Sequence[AbstractTarget]):
        self.model, self.batch, self.targets = model, batch, targets
        self.names: list[str] = []
        self.terms: list[list[Term]] = []
        """Per example; empty where the target is a function."""

    def __call__(self, outputs: Any) -> Tensor:
        first = self.targets[0]
        if isinstance(first, Custom):
            self.model.check_finite(outputs)
            self.names = [first.name] * self.batch.examples
            return self._computed(first, outputs)
        self.choose(self.model.brought_home(outputs))
        return self.model.sum_of_terms(outputs, self.batch, self.terms)

    def choose(self, near: Any) -> None:
        """Find the terms in outputs that are near at hand."""
        self.model.check_finite(near)
        together = self._together(near)
        if together is not None:
            self.terms, self.names = together
            return
        chosen = [t.terms(self.model.view(near, self.batch, n)) for n, t in enumerate(self.targets)]
        self.terms, self.names = [terms for terms, _ in chosen], [name for _, name in chosen]

    def foreseen(self, shape: tuple[int, ...]) -> list[list[Term]] | Literal["best"] | None:
        """What will be chosen, where that is known before the model has run: classes, as terms of outputs of this
        shape; the largest of each row."""
        if not self._alike or len(shape) != 2:
            return None
        if isinstance(self.targets[0], Predicted):
            return "best"
        return [[Term((index,))] for index in self._classes(shape[1])]

    def _together(self, near: Any) -> tuple[list[list[Term]], list[str]] | None:
        """Predictions or classes of all examples at once: asked for most often, and one row at a time takes long."""
        if not self._alike:
            return None
        logits = field_of(near, "logits")
        if logits.dim() != 2:
            return None
        best = isinstance(self.targets[0], Predicted)
        chosen = logits.detach().float().argmax(-1).tolist() if best else self._classes(logits.shape[1])
        names = {one: self.model.spell(one) for one in set(chosen)}
        return [[Term((one,))] for one in chosen], [names[one] for one in chosen]

    @property
    def _alike(self) -> bool:
        """Whether all ask for the prediction, or all for a class, among the same classes."""
        kinds = {type(t) for t in self.targets}
        plain = self.model.follows is None and self.model.fields[0] == "logits"
        return plain and kinds in ({Predicted}, {Class}) and not any(e.rows or e.labels for e in self.batch.rows)

    def _classes(self, count: int) -> list[int]:
        """The classes that are asked for, of so many."""
        view = self.model.view({}, self.batch, 0)
        asked = [t.choice for t in self.targets if isinstance(t, Class)]
        index = {choice: class_index(choice, view, count) for choice in dict.fromkeys(asked)}
        return [index[choice] for choice in asked]

    def _computed(self, target: Custom, outputs: Any) -> Tensor:
        scores, examples = target.function(outputs), self.batch.examples
        if not isinstance(scores, Tensor) or scores.numel() != examples:
            if examples > 1:  # it was perhaps written for one input
                raise CannotSplit
            shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise InputError(f"target {target.name!r} must give one score per example, not {shape}")
        return scores.reshape(examples)


class TargetsOfOne:
    """Outputs for one example to the scores of several targets of it, (target, example)."""

    def __init__(self, model: AbstractAdapter, batch: ExampleBatch, targets: Sequence[AbstractTarget]):
        self.model, self.batch, self.targets = model, batch, targets
        self.names: list[str] = []

    def __call__(self, outputs: Any) -> Tensor:
        near = self.model.brought_home(outputs)
        self.model.check_finite(near)
        view = self.model.view(near, self.batch, 0)
        chosen = [target.terms(view) for target in self.targets]
        self.names = [name for _, name in chosen]
        terms = [own for own, _ in chosen]
        return self.model.sum_of_terms(outputs, self.batch, terms, [0] * len(terms))[:, None]
