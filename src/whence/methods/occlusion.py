"""Occlusion: leave one out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from whence.errors import InputError
from whence.methods.method import AbstractMethod, methods
from whence.methods.perturbation import check_deletion, originals
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.scoring import Scorer
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

    away: Literal["token", "word"] = "token"
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
        model.check_fill(self.fill)
        scorer = Scorer(model, progress=None)
        found = originals(model, examples, targets, scorer)
        if self.fill == "delete":
            for example, original in zip(examples, found, strict=True):
                check_deletion(example, original.goal)
        groups = [self._groups(example) for example in examples]

        inputs, goals = [], []
        for example, parts, original in zip(examples, groups, found, strict=True):
            inputs += [example, *(model.masked(example, _all_but(part, example.count), self.fill) for part in parts)]
            goals += [original.goal] * (1 + len(parts))
        values = iter(scorer.scores(inputs, goals))

        results = []
        for example, parts, original in zip(examples, groups, found, strict=True):
            whole = next(values)
            scores = np.zeros(example.count)
            for part in parts:
                scores[part] = (whole - next(values)) / len(part)
            results.append(
                self.build(
                    model,
                    example,
                    scores=scores,
                    target=original.goal.name,
                    target_score=float(whole),
                    prediction=original.prediction,
                )
            )
        return results

    def _groups(self, example: Example) -> list[list[int]]:
        """Features that are taken away together."""
        if self.away == "token":
            return [[i] for i in range(example.count) if self.special or not example.special[i]]
        words: dict[tuple[int, int], list[int]] = {}
        for k, (part, own) in enumerate(zip(example.parts, example.slices(), strict=True)):
            if not part.word_ids:
                raise InputError("away='word' needs text that a fast tokenizer split into words. Use away='token'")
            for i, word in enumerate(part.word_ids, own.start):
                if word is not None:
                    words.setdefault((k, word), []).append(i)
        alone = [[i] for i in range(example.count) if self.special and example.special[i]]
        return [*words.values(), *alone]


def _all_but(part: list[int], count: int) -> np.ndarray:
    keep = np.ones(count, dtype=bool)
    keep[part] = False
    return keep
