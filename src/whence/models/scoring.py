"""Many inputs, few outputs: what perturbation methods and metrics need of a model.

All inputs go through the model in full batches sorted by length, without gradients, and the same input once only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example, batches
from whence.models.targets import AbstractTarget, Custom, Term, field_of
from whence.progress import track

__all__ = ["FixedTarget", "Scorer"]


class FixedTarget(NamedTuple):
    """A target decided on the original input, to be asked of perturbed ones.

    Places in a sequence are kept relative to the predicting token, so that they hold where tokens were deleted.
    """

    terms: tuple[Term, ...]
    name: str
    custom: Custom | None = None


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
        self.budget = batch_tokens or (65536 if model.device.type == "cuda" else 4096)
        self.progress = progress
        self.forwards = 0
        """Inputs that went through the model, repeated ones not counted."""
        self._known: dict[bytes, np.ndarray] = {}

    def fix(self, example: Example, target: AbstractTarget) -> FixedTarget:
        """Decide a target on `example`: which class is the predicted one, which token the runner-up."""
        if isinstance(target, Custom):
            return FixedTarget((), target.name, target)
        with torch.no_grad():
            outputs = self.model.forward(self.model.collate([example]))
        self.model.check_finite(outputs)
        terms, name = target.terms(self.model.view(outputs, [example], 0))
        return FixedTarget(tuple(_relative(t, example) for t in terms), name)

    def scores(self, examples: Sequence[Example], targets: Sequence[FixedTarget]) -> np.ndarray:
        """One score per example (float64), each for its own target."""
        found = self._collected(examples, [self._key(e, t) for e, t in zip(examples, targets, strict=True)], targets)
        return np.array([float(v) for v in found], dtype=np.float64)

    def logits(self, examples: Sequence[Example]) -> np.ndarray:
        """Outputs of each example (classes), at the predicting token for language models: (example, class) float32."""
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
        parts = list(batches(todo, self.budget, equal_lengths=not self.model.mixes_lengths))
        for part in track(parts, "model", len(todo), map(len, parts), show=self.progress):
            chosen = [todo[i] for i in part]
            wanted = [targets[places[i]] for i in part] if targets is not None else None
            for i, value in zip(part, self._run(chosen, wanted), strict=True):
                self._known[order[i]] = value
        self.forwards += len(todo)
        return [self._known[key] for key in keys]

    def _run(self, examples: list[Example], targets: list[FixedTarget] | None) -> list[np.ndarray]:
        with torch.inference_mode():
            outputs = self.model.forward(self.model.collate(examples))
            if targets is None:
                return [self._row(outputs, examples, n) for n in range(len(examples))]
            if targets[0].custom is not None:
                return list(targets[0].custom.function(outputs).double().cpu().numpy())
            return [np.asarray(self._sum(outputs, examples, n, t.terms)) for n, t in enumerate(targets)]

    def _row(self, outputs: Any, examples: list[Example], n: int) -> np.ndarray:
        logits: Tensor = field_of(outputs, "logits")[n]
        position = self._position(examples, n)
        return (logits if position is None else logits[position]).float().cpu().numpy()

    def _sum(self, outputs: Any, examples: list[Example], n: int, terms: tuple[Term, ...]) -> float:
        start = self._position(examples, n)
        total = 0.0
        for term in terms:
            place = term.place if start is None or term.field != "logits" else (term.place[0] + start, *term.place[1:])
            total += term.weight * float(field_of(outputs, term.field)[n][place])
        return total

    def _position(self, examples: list[Example], n: int) -> int | None:
        position = examples[n].position
        return None if position is None else position + self.model.shift(examples, n)

    @staticmethod
    def _key(example: Example, target: FixedTarget | None) -> bytes:
        parts = [name.encode() + value.numpy(force=True).tobytes() for name, value in sorted(example.inputs.items())]
        return b"|".join([repr((example.position, target)).encode(), *parts])


def _relative(term: Term, example: Example) -> Term:
    if example.position is None or term.field != "logits":
        return term
    return term._replace(place=(term.place[0] - example.position, *term.place[1:]))
