"""Which explanation of one input to believe: the model is asked again without what each of them names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from whence import cancel
from whence.evaluation.curves import area, counts, ranked, tenths
from whence.evaluation.ranks import spearman
from whence.evaluation.removal import without
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.scoring import Scorer
from whence.models.targets import AbstractTarget

__all__ = ["Faith", "agreement", "faithfulness"]

FRACTIONS = tenths()


class Faith(NamedTuple):
    """How the explained score falls as features are taken away, by one explanation's order."""

    area: float
    """Mean gap between the two curves: higher is better, 0 for scores that know nothing [Achtibat 2024, ΔA_F]."""
    most: tuple[float, ...]
    """The score when the features that speak most for it go first."""
    least: tuple[float, ...]
    """The score when those go last."""
    fractions: tuple[float, ...] = FRACTIONS


def faithfulness(
    model: AbstractAdapter,
    example: Example,
    target: AbstractTarget,
    scores: Mapping[str, np.ndarray],
    fill: str = "mask",
) -> dict[str, Faith]:
    """Curves and their areas for several sets of scores of one input, the same removals asked once only.

    As the metric `lerf_morf`, for one input and any target that is a sum of outputs. Special tokens stay.
    """
    model.check_fill(fill)
    scorer = Scorer(model)
    goal = scorer.fix(example, target)
    counted = _counted(example)
    inputs: list[Example] = []
    for values in scores.values():
        cancel.check()
        order = ranked(np.asarray(values, np.float64).reshape(-1), counted, "signed", descending=True)
        for line in (order, order[::-1]):
            inputs += [without(model, example, line[:n], fill) for n in counts(FRACTIONS, len(line))]
    found = scorer.scores(inputs, [goal] * len(inputs)).reshape(len(scores), 2, len(FRACTIONS))
    return {
        name: Faith(area(FRACTIONS, least - most), tuple(most.tolist()), tuple(least.tolist()))
        for name, (most, least) in zip(scores, found, strict=True)
    }


def agreement(example: Example, scores: Mapping[str, np.ndarray]) -> list[list[float]]:
    """Spearman's ρ of every two sets of scores over the features that are no special tokens; NaN for constant ones."""
    counted = _counted(example)
    values = [np.asarray(own, np.float64).reshape(-1)[counted] for own in scores.values()]
    return [[spearman(a, b) for b in values] for a in values]


def _counted(example: Example) -> np.ndarray:
    marks = example.special
    if not len(marks) or not marks.any() or marks.all():
        return np.ones(example.count, dtype=bool)
    return ~marks
