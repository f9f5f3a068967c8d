"""Positive and negative perturbation of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from whence.evaluation.curves import PerturbationMetric, area, tenths
from whence.evaluation.metric import Need, Task, metrics
from whence.models.example import Example
from whence.options import Share
from whence.results.measured import Axis, Measurement

__all__ = ["NegativePerturbation", "PositivePerturbation"]


@dataclass(frozen=True, kw_only=True)
class _PixelPerturbation(PerturbationMetric):
    """AUC of mean [argmax = target] over 10, 20, …, 90 % of the patches, per unit of the range [Chefer 2021].

    `output="probability"` takes the target's probability in place of accuracy.
    """

    needs: ClassVar[tuple[Need, ...]] = ("image",)
    descending: ClassVar[bool]
    fill: str = "black"
    """What stands in a patch's place: black, mean, zero."""
    fractions: tuple[Share, ...] = tenths(1, 9)
    output: Literal["accuracy", "probability"] = "accuracy"

    def inputs(self, task: Task) -> list[Example]:
        return self.removed(task, self.order_of(task, descending=self.descending))

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        curve = self.read(task, logits, self.output)
        return {"": Measurement((area(self.fractions, curve),), curve=tuple(curve.tolist()))}

    def axis(self) -> Axis | None:
        first = "most" if self.descending else "least"
        return Axis(self.fractions, f"share of patches black, {first} relevant first", self.output)


@metrics.register("perturbation_positive")
@dataclass(frozen=True, kw_only=True)
class PositivePerturbation(_PixelPerturbation):
    """Accuracy as patches go black, most relevant first: it should fall at once [Chefer 2021]. Lower is better.

    AUC of mean [argmax = target] over 10, 20, …, 90 % of the patches, per unit of the range. `output="probability"`
    takes the target's probability in place of accuracy.
    """

    better = "lower"
    descending: ClassVar[bool] = True


@metrics.register("perturbation_negative")
@dataclass(frozen=True, kw_only=True)
class NegativePerturbation(_PixelPerturbation):
    """Accuracy as patches go black, least relevant first: it should stay [Chefer 2021]. Higher is better.

    AUC of mean [argmax = target] over 10, 20, …, 90 % of the patches, per unit of the range. `output="probability"`
    takes the target's probability in place of accuracy.
    """

    better = "higher"
    descending: ClassVar[bool] = False
