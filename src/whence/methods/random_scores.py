"""Random scores: what every method has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from whence.methods.method import AbstractMethod, methods
from whence.methods.noise import seed_of
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import Example
from whence.models.targets import AbstractTarget
from whence.results import Explanation

__all__ = ["Random"]


@methods.register("random")
@dataclass(frozen=True, kw_only=True)
class Random(AbstractMethod):
    """Scores drawn from a standard normal distribution: the control that any method has to beat.

    They depend on the seed and on what is explained, not on its place in a batch or in a data set.
    """

    class_specific: ClassVar[bool] = False
    cost: ClassVar[str] = "1 forward, to name the target"

    seed: int = 0
    """Another seed, other scores."""

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        batch = model.collate(examples)
        with torch.inference_mode():
            outputs = model.run(batch)
            scores = TargetScores(model, batch, targets)
            values = scores(outputs)
        predictions = model.predictions(outputs, batch)
        return [
            self.build(
                model,
                example,
                scores=np.random.default_rng(seed_of(example, self.seed)).standard_normal(example.count),
                target=scores.names[n],
                target_score=float(values[n]),
                prediction=predictions[n],
            )
            for n, example in enumerate(examples)
        ]
