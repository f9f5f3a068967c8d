"""What the model says when features are taken away: the plainest check of an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from whence.errors import InputError
from whence.evaluation.metric import probability
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.scoring import FixedTarget, Scorer
from whence.models.targets import AbstractTarget

__all__ = ["Removal", "drawn", "removals", "units", "without"]


class Removal(NamedTuple):
    """What the model says of an input without some of its features."""

    score: float
    """Of the target that was decided on the whole input."""
    probability: float | None
    """Of the target's class or token; None where the target is no single one."""
    label: str
    """What the model predicts now; empty where it has no classes."""


def units(example: Example) -> list[list[int]]:
    """Features that are taken away at once: the tokens of a word, and single patches or pieces of a sound.

    Special tokens are none: without them the model has another task.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    alone: list[list[int]] = []
    for k, (part, own) in enumerate(zip(example.parts, example.slices(), strict=True)):
        for i in range(own.start, own.stop):
            word = part.word_ids[i - own.start] if part.word_ids else None
            if example.marks[i] if example.marks else False:
                continue
            if word is None:
                alone.append([i])
            else:
                groups.setdefault((k, word), []).append(i)
    return sorted([*groups.values(), *alone])


def drawn(example: Example, count: int, draws: int, seed: int) -> list[list[int]]:
    """`draws` sets of `count` units each, drawn at random without replacement, as features."""
    whole = units(example)
    pick = np.random.default_rng(seed)
    taken = min(count, len(whole))
    return [
        [i for n in sorted(pick.choice(len(whole), taken, replace=False).tolist()) for i in whole[n]]
        for _ in range(draws)
    ]


def removals(
    model: AbstractAdapter, example: Example, target: AbstractTarget, sets: Sequence[Sequence[int]], fill: str = "mask"
) -> list[Removal]:
    """What the model says without each of the `sets` of features, in full batches; an empty set takes nothing away."""
    model.check_fill(fill)
    beyond = next((i for one in sets for i in one if not 0 <= i < example.count), None)
    if beyond is not None:
        raise InputError(f"there is no feature {beyond}: this input has {example.count}, counted from 0")
    scorer = Scorer(model)
    goal = scorer.fix(example, target)
    inputs = [without(model, example, one, fill) for one in sets]
    scores = scorer.scores(inputs, [goal] * len(inputs))
    number = _class_of(goal)
    if number is None or not _has_classes(model, example):
        return [Removal(float(s), None, "") for s in scores]
    logits = scorer.logits(inputs)
    shares = probability(model, logits, number)
    named = [model.spelled(example, int(n)) for n in logits.argmax(-1)]
    return [Removal(float(s), float(p), label) for s, p, label in zip(scores, shares, named, strict=True)]


def without(model: AbstractAdapter, example: Example, gone: Sequence[int] | np.ndarray, fill: str) -> Example:
    """The example with these features replaced."""
    if not len(gone):
        return example
    keep = np.ones(example.count, dtype=bool)
    keep[list(gone)] = False
    return model.masked(example, keep, fill)


def _class_of(goal: FixedTarget) -> int | None:
    """The class (or token) that the target speaks for; of a contrast, the one it speaks for."""
    first = next((term for term in goal.terms if term.field == "logits" and term.weight > 0), None)
    return int(first.place[-1]) if first is not None else None


def _has_classes(model: AbstractAdapter, example: Example) -> bool:
    return model.fields == ("logits",) and (model.follows is None or bool(example.rows))
