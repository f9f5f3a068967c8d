"""Which part of one input goes with which part of another: the similarity of two embeddings, taken apart [BiLRP].

With e_m(a) = Σ_i R_i^m + s^m, the relevance of the features of `a` for dimension m of its embedding and what ended in
sinks, the product of two embeddings is a sum over pairs,

    e(a)·e(b) = Σ_ij Σ_m R_i^m R'_j^m + Σ_i Σ_m R_i^m s'^m + Σ_j Σ_m s^m R'_j^m + Σ_m s^m s'^m     [Eberle 2020, eq. 5]

The first sum is the matrix. The lengths of the embeddings, of a cosine, are constants. Late interaction [Khattab 2020]
is Σ_k max_l ê_k·ê'_l over the embeddings of tokens: once each k has its partner, a product of two long vectors.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.propagation import Walk
from whence.core.recipe import Recipe
from whence.core.transposed import CannotTranspose, by_part
from whence.errors import InputError, NumericsError
from whence.methods.propagate import Propagate, explained
from whence.models.attending import in_the_open
from whence.models.embedding import Embeds
from whence.models.example import Example, ExampleBatch
from whence.results import Conservation, Explanation, Pair, Prediction

__all__ = ["Embedded", "paired", "partners"]

AGREES = 0.01
"""How far the transposed pass may be from an ordinary one, of its largest score, in any precision."""
LONGEST = 2048
"""Features of an input up to which maps of attention may be written down."""
WIDE = 2**26
"""Numbers up to which products are taken in float64."""


class Embedded:
    """One input under a recipe: its embedding, and the way back from each of its dimensions."""

    def __init__(self, model: Embeds, method: Propagate, example: Example, measure: str):
        self.model, self.method, self.example, self.measure = model, method, example, measure
        self.batch: ExampleBatch = model.collate([example])
        self._walk = Walk(
            model.forward, self.batch, targets=self._targets, recipe=self._recipe(), receipt=method.booked,
            at=method.at,
        )  # fmt: skip
        self._shape = (1, 0)

    def _targets(self, outputs: Any) -> Tensor:
        self.model.check_finite(outputs)
        found = self.model.vectors(outputs, self.batch, 0, self.measure)
        self._shape = (found.shape[0], found.shape[1])
        return found.reshape(-1, 1)

    def __enter__(self) -> Embedded:
        self._held = ExitStack()
        try:
            self._held.enter_context(in_the_open(self.model.module))
            self._held.enter_context(self._walk)
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def _recipe(self) -> Recipe:
        """Where attention has its ordinary gradient: by operations whose backward pass has a derivative, as has that of
        a softmax with a temperature. At 1 it is the same.
        """
        recipe = self.method.resolved()
        written = recipe.softmax == "gradient" and self.example.count <= LONGEST
        return recipe.but(name=recipe.name, softmax=1.0) if written else recipe

    @cached_property
    def raw(self) -> Tensor:
        """What is compared, as the model gives it: (vector, dimension)."""
        return self._walk.scores.reshape(self._shape).double()

    @cached_property
    def lengths(self) -> Tensor:
        """What each vector is divided by: (vector, 1)."""
        if self.measure == "dot":
            return torch.ones(len(self.raw), 1, dtype=torch.float64)
        found: Tensor = torch.linalg.vector_norm(self.raw, dim=1, keepdim=True)
        if not bool((found > 0).all()):
            raise NumericsError("an embedding is zero, and has no direction to compare: use measure='dot'")
        return found

    @cached_property
    def vectors(self) -> Tensor:
        """What is multiplied."""
        return self.raw / self.lengths

    @cached_property
    def relevance(self) -> Tensor:
        """Of each feature, for each number of `vectors`: (feature, vector, dimension)."""
        found = self._transposed()
        found = self._one_by_one() if found is None else found
        wide = torch.float64 if found.numel() <= WIDE else torch.float32
        return found.to(wide).reshape(-1, *self._shape) / self.lengths.to(wide)

    @cached_property
    def inputs(self) -> Tensor:
        """What all features have together: (vector, dimension)."""
        return self.relevance.sum(0, dtype=torch.float64)

    def back(self, weights: Tensor, name: str = "") -> Explanation:
        """From Σ weights · vectors: one backward pass."""
        done = self._walk.back((weights / self.lengths).reshape(-1))
        return explained(self.method, self.model, self.batch, done, name, Prediction())

    def booked(self, weights: Tensor) -> float:
        """What sinks keep of Σ weights · vectors."""
        receipt = self.back(weights).conservation
        assert receipt is not None
        return receipt.total - receipt.inputs

    def _transposed(self) -> Tensor | None:
        """All dimensions for each feature. None where the pass can't be transposed, or another pass contradicts it."""
        if self.method.at != "word":
            return None
        try:
            found = by_part(self._walk, self._numbers(), self.example.count)
        except CannotTranspose:
            return None
        weights = self.raw.reshape(-1)
        weights = weights / torch.linalg.vector_norm(weights).clamp_min(1e-30)
        wanted = self.model.scores_of(self._walk.back(weights).relevance, self.batch, 0).reshape(-1)
        gap = np.abs((found.double() @ weights).numpy() - wanted).max()
        return found if gap <= AGREES * np.abs(wanted).max() else None

    def _one_by_one(self) -> Tensor:
        """All features for each dimension: as many passes as there are dimensions."""
        columns = []
        for n in range(self.raw.numel()):
            weights = torch.zeros(self.raw.numel())
            weights[n] = 1
            done = self._walk.back(weights)
            columns.append(torch.from_numpy(self.model.scores_of(done.relevance, self.batch, 0).reshape(-1)))
        return torch.stack(columns, 1)

    def _numbers(self) -> dict[str, Tensor]:
        """Which feature each element of a source belongs to: `by_feature` sums them, so its gradient tells."""
        made = {}
        for part, own in zip(self.example.parts, self.example.slices(), strict=True):
            name = part.source.name
            with torch.enable_grad():
                every = torch.zeros(self.batch.inputs[name].shape, device=self.model.device, requires_grad=True)
                summed = self.model.by_feature(part, self.batch.own(name, 0, every)).reshape(-1)
                numbers = torch.arange(own.start + 1, own.stop + 1, device=every.device)
                (found,) = torch.autograd.grad((summed * numbers).sum(), every)
            made[name] = found.round().long() - 1
        return made


def partners(a: Tensor, b: Tensor) -> Tensor:
    """Which vector of `b` goes with each vector of `a`: the most similar one."""
    return (a @ b.T).argmax(1)


def paired(a: Embedded, b: Embedded) -> Pair:
    """The similarity of two inputs, taken apart."""
    if a.raw.shape[1] != b.raw.shape[1]:
        raise InputError(f"embeddings of {a.raw.shape[1]} and {b.raw.shape[1]} dimensions can't be compared")
    chosen = partners(a.vectors, b.vectors)
    matrix = (a.relevance.flatten(1) @ b.relevance[:, chosen].flatten(1).to(a.relevance.dtype).T).double()
    left = a.back(b.vectors[chosen], f"{a.measure} similarity to {_shown(b)}")
    right = b.back(_gathered(a.vectors, chosen, b), f"{a.measure} similarity to {_shown(a)}")
    each = (a.vectors * b.vectors[chosen]).sum(1)
    score = float(each.sum())
    matches = tuple(zip(range(len(chosen)), chosen.tolist(), each.tolist(), strict=True))
    return Pair(
        matrix=matrix.numpy(),
        score=score,
        measure=a.measure,
        left=left,
        right=right,
        conservation=_receipt(a, b, chosen, float(matrix.sum()), score, left, right),
        matches=matches if a.measure == "maxsim" else (),
    )


def _receipt(
    a: Embedded, b: Embedded, chosen: Tensor, inputs: float, score: float, left: Explanation, right: Explanation
) -> Conservation:
    """Inputs × inputs are from the matrix, all that has to do with sinks is from the books of the backward passes."""
    one, two = left.conservation, right.conservation
    assert one is not None
    assert two is not None
    unruled = tuple(sorted({*one.unruled, *two.unruled}))
    if not (one.complete and two.complete):
        return Conservation(inputs, score, {}, unruled, complete=False)
    mixed = b.booked(_gathered(a.inputs, chosen, b))
    sinks = {
        "inputs × sinks": mixed,
        "sinks × inputs": a.booked(b.inputs[chosen]),
        "sinks × sinks": two.total - two.inputs - mixed,
    }
    return Conservation(inputs, score, sinks, unruled, tolerance=one.tolerance + two.tolerance)


def _gathered(vectors: Tensor, chosen: Tensor, b: Embedded) -> Tensor:
    """For each vector of `b`, the sum of those of `a` whose partner it is."""
    return torch.zeros(b.raw.shape, dtype=torch.float64).index_add_(0, chosen, vectors.double())


def _shown(one: Embedded) -> str:
    return "the picture" if one.example.text is None else repr(one.example.text)
