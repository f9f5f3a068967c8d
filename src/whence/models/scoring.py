"""Many inputs, few outputs: what perturbation methods and metrics need of a model.

All inputs go through the model in full batches sorted by length, without gradients, and the same input once only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.batching import batches, budget_of
from whence.models.example import Example, ExampleBatch
from whence.models.targets import CONSTANT, AbstractTarget, Custom, Predicted, Term
from whence.progress import track

__all__ = ["FixedTarget", "Scorer"]


class FixedTarget(NamedTuple):
    """A target decided on the original input, to be asked of perturbed ones.

    Places in a sequence are kept relative to the predicting token, so that they hold where tokens were deleted.
    """

    terms: tuple[Term, ...]
    name: str
    custom: Custom | None = None

    @property
    def reads_rows(self) -> bool:
        """As of any target."""
        return self.custom is None and all(t.field == "logits" and t.place for t in self.terms)

    def rows_of(self, example: Example) -> Sequence[int]:
        return [_absolute(term, example).place[0] for term in self.terms]


class Scorer:
    """Scores of perturbed inputs, each distinct input computed once.

    >>> import whence
    >>> model = whence.load("sentiment")
    >>> (example,), _ = model.encode("a gem")
    >>> scorer = Scorer(model)
    >>> goal = scorer.fix(example, model.target("positive"))
    >>> bool(scorer.scores([example], [goal])[0] > 0)
    True
    """

    def __init__(self, model: AbstractAdapter, *, batch_tokens: int | None = None, progress: bool | None = False):
        self.model = model
        self.budget = batch_tokens or budget_of(model.device, "score")
        self.progress = progress
        self.forwards = 0
        """Inputs that went through the model, repeated ones not counted."""
        self._known: dict[bytes, np.ndarray] = {}

    def fix(self, example: Example, target: AbstractTarget) -> FixedTarget:
        """Decide a target on `example`: which class is the predicted one, which token the runner-up."""
        if isinstance(target, Custom):
            return FixedTarget((), target.name, target)
        batch = self.model.collate([example], [target])
        with torch.no_grad():
            outputs = self.model.run(batch)
        self.model.check_finite(outputs)
        terms, name = target.terms(self.model.view(outputs, batch, 0))
        if any(t.field == CONSTANT for t in terms):
            raise InputError(
                f"{name!r} is no sum of logits and is known by its gradient alone, so it can't be followed to changed "
                "inputs: take score='margin' or 'logit', or target=lambda outputs: …"
            )
        return FixedTarget(tuple(_relative(t, example) for t in terms), name)

    def scores(self, examples: Sequence[Example], targets: Sequence[FixedTarget]) -> np.ndarray:
        """One score per example (float64), each for its own target."""
        found = self._collected(examples, [self._key(e, t) for e, t in zip(examples, targets, strict=True)], targets)
        return np.array([float(v) for v in found], dtype=np.float64)

    def logits(self, examples: Sequence[Example]) -> np.ndarray:
        """Outputs of each example (classes), at the predicting token for language models: (example, class) float32."""
        if self.model.fields != ("logits",) or (self.model.follows is not None and not all(e.rows for e in examples)):
            raise InputError(f"{self.model.called} gives no classes of an input, so this can't be measured on it")
        return np.stack(self._collected(examples, [self._key(e, None) for e in examples], None))

    # -- inside ----------------------------------------------------------------------------------------------

    def _collected(
        self, examples: Sequence[Example], keys: list[bytes], targets: Sequence[FixedTarget] | None
    ) -> list[np.ndarray]:
        new: dict[bytes, int] = {}
        for n, key in enumerate(keys):
            if key not in self._known and key not in new:
                new[key] = n
        order, places = list(new), list(new.values())
        todo = [examples[n] for n in places]
        custom = targets is not None and any(t.custom is not None for t in targets)
        apart = [(bool(e.looked_up), e.shape_key if custom else None) for e in todo]
        parts = list(batches(self.model, todo, self.budget, apart))
        for part in track(parts, "model", len(todo), map(len, parts), show=self.progress):
            chosen = [todo[i] for i in part]
            wanted = [targets[places[i]] for i in part] if targets is not None else None
            for i, value in zip(part, self._run(chosen, wanted), strict=True):
                self._known[order[i]] = value
        self.forwards += len(todo)
        return [self._known[key] for key in keys]

    def _run(self, examples: list[Example], targets: list[FixedTarget] | None) -> list[np.ndarray]:
        batch = self.model.collate(examples, [Predicted()] * len(examples) if targets is None else targets)
        with torch.inference_mode():
            outputs = self.model.run(batch)
            if targets is None:
                return [self._row(outputs, batch, n) for n in range(len(examples))]
            if targets[0].custom is None:
                terms = [[_absolute(t, e) for t in goal.terms] for goal, e in zip(targets, examples, strict=True)]
                return list(self.model.sum_of_terms(outputs, batch, terms).cpu().double().numpy())
            scores = targets[0].custom.function(outputs).cpu().double().numpy().reshape(-1)
        if len(scores) == len(examples):
            return list(scores)
        if len(examples) == 1:
            raise InputError(f"target {targets[0].name!r} must give one score per example, not {len(scores)}")
        return [row for e, t in zip(examples, targets, strict=True) for row in self._run([e], [t])]

    def _row(self, outputs: Any, batch: ExampleBatch, n: int) -> np.ndarray:
        rows = batch.rows[n].rows[:1]
        if rows:
            (logits,) = self.model.output_rows(outputs, batch, n, "logits", rows)
        else:
            logits = self.model.own_output(outputs, batch, n, "logits")
        if logits.dim() != 1:
            raise InputError(f"{self.model.called} gives no classes of an input, so this can't be measured on it")
        row: np.ndarray = logits.float().cpu().numpy()
        return row

    @staticmethod
    def _key(example: Example, target: FixedTarget | None) -> bytes:
        shared = id(example.shared) if example.shared else 0
        return repr((example.rows, shared, target)).encode() + example.content()


def _relative(term: Term, example: Example) -> Term:
    return _moved(term, -example.rows[0]) if example.rows else term


def _absolute(term: Term, example: Example) -> Term:
    return _moved(term, example.rows[0]) if example.rows else term


def _moved(term: Term, by: int) -> Term:
    return term._replace(place=(term.place[0] + by, *term.place[1:])) if term.field == "logits" else term
