"""What methods that replace features share: targets that are decided on the input as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.scoring import FixedTarget, Scorer
from whence.models.targets import AbstractTarget
from whence.results import Prediction

__all__ = ["Original", "check_deletion", "originals"]


class Original(NamedTuple):
    """What the model says about the input as it is: the target decided there, and the prediction."""

    goal: FixedTarget
    prediction: Prediction


def check_deletion(example: Example, goal: FixedTarget) -> None:
    """An error for targets that are read at a token: deleting tokens moves them."""
    for term in goal.terms:
        # the place of the predicting token is kept relative to itself, as 0, and follows it
        follows = bool(example.rows) and term.place[0] == 0
        if term.field != "logits" or (len(term.place) > 1 and not follows):
            raise InputError(
                f"deleting tokens moves the others, and the target {goal.name!r} is read at one of them. "
                "Replace them instead: fill='mask'"
            )


def originals(
    model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget], scorer: Scorer
) -> list[Original]:
    """Targets and predictions of the inputs as they are."""
    batch = model.collate(examples, targets)
    with torch.inference_mode():
        outputs: Any = model.run(batch)
    model.check_finite(outputs)
    goals = [scorer.fix(example, target) for example, target in zip(examples, targets, strict=True)]
    return [Original(goal, said) for goal, said in zip(goals, model.predictions(outputs, batch), strict=True)]
