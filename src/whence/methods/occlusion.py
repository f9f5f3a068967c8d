"""Occlusion: leave one out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from whence.errors import InputError, UnknownNameError
from whence.methods.method import AbstractMethod, methods
from whence.methods.perturbation import (
    Features,
    check_deletion,
    check_fill,
    features_of,
    originals,
    perturbed,
    scorer_for,
)
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example
from whence.models.targets import AbstractTarget
from whence.results import Explanation

__all__ = ["Occlusion"]


@methods.register("occlusion")
@dataclass(frozen=True, kw_only=True)
class Occlusion(AbstractMethod):
    """How much the score falls when a feature is taken away: R_i = f(x) − f(x without i)   [Zeiler & Fergus 2014].

    Also known as leave one out [Li 2016]. Features are tokens, words, or patches of an image. What two features do
    together is counted for both or for neither, so scores need not sum to anything.
    """

    cost: ClassVar[str] = "1 forward per feature"

    by: Literal["token", "word"] = "token"
    """What is taken away at once: `token` (in images: patch), or `word`, whose pieces then share its score equally."""
    fill: str = "mask"
    """What comes instead: the tokenizer's `mask`, `unk` or `pad` token, or nothing, `delete`; in images `black`, the
    `mean` colour or `zero`, with `mask` for black. A tokenizer without a mask token uses unk, pad or eos, in that
    order; a plain module 0."""
    special: bool = False
    """Take special tokens away too. Otherwise they score 0."""

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        check_fill(model, self.fill)
        scorer = scorer_for(model, examples)
        found = originals(model, examples, targets, scorer)
        if self.fill == "delete":
            for example, original in zip(examples, found, strict=True):
                check_deletion(example, original.goal)
        features = [features_of(model, e) for e in examples]
        groups = [self._groups(e, f) for e, f in zip(examples, features, strict=True)]

        inputs, goals = [], []
        for example, own, parts, original in zip(examples, features, groups, found, strict=True):
            inputs += [example, *(perturbed(model, example, own, _all_but(part, own), self.fill) for part in parts)]
            goals += [original.goal] * (1 + len(parts))
        values = iter(scorer.scores(inputs, goals))

        results = []
        for example, own, parts, original in zip(examples, features, groups, found, strict=True):
            whole = next(values)
            scores = np.zeros(own.count)
            for part in parts:
                scores[part] = (whole - next(values)) / len(part)
            results.append(
                self.build(
                    model,
                    example,
                    scores=scores.reshape(own.shape),
                    target=original.goal.name,
                    target_score=float(whole),
                    prediction=original.prediction,
                )
            )
        return results

    def _groups(self, example: Example, features: Features) -> list[list[int]]:
        """Features that are taken away together."""
        if self.by == "token":
            return [[i] for i in range(features.count) if self.special or not features.special[i]]
        if self.by != "word":
            raise UnknownNameError("unit", self.by, ("token", "word"))
        if not example.word_ids:
            raise InputError("by='word' needs text that was split into words by a fast tokenizer. Use by='token'")
        words: dict[tuple[str, int], list[int]] = {}
        for i, word in enumerate(example.word_ids):
            if word is not None:
                side = example.sides[i] if example.sides else ""  # both texts of a pair count from 0
                words.setdefault((side, word), []).append(i)
        alone = [[i] for i in range(features.count) if self.special and features.special[i]]
        return [*words.values(), *alone]


def _all_but(part: list[int], features: Features) -> np.ndarray:
    keep = np.ones(features.count, dtype=bool)
    keep[part] = False
    return keep
