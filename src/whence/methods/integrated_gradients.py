"""Integrated gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from whence.core.batch import Batch
from whence.core.gradients import by_place, leaves_of, rows_of
from whence.core.interception import Leaf
from whence.core.numerics import widened
from whence.errors import ModelError, OptionError
from whence.methods.gradient import Asked, ask
from whence.methods.method import AbstractMethod, methods
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.targets import AbstractTarget
from whence.options import Count
from whence.results import Conservation, Explanation

__all__ = ["IntegratedGradients"]


@methods.register("integrated_gradients")
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(AbstractMethod):
    """The gradient averaged on the straight path from a baseline to the input   [Sundararajan 2017, eq. 3].

    R_t = Σ_d (x_td − b_td) · Σ_k w_k ∂f(b + α_k (x − b))/∂x_td, at the embeddings of tokens or at pixels.

    Scores and f(b) sum to f(x) as `steps` grows. The receipt has f(b) as the sink `baseline`, and its error is what is
    missing: more steps make it smaller. Only embeddings move: ids, masks and positions stay those of the input.
    """

    cost: ClassVar[str] = "steps + 2 forwards and backwards"

    steps: Count = 32
    """Points on the path."""
    baseline: str = "pad"
    """Where the path begins: the embedding of the `pad`, `mask` or `unk` token in the place of every token, or `zero`;
    in images `black` (which `pad` and `mask` stand for too), the `mean` colour, or `zero`; in a plain module id 0 and
    value 0."""
    rule: Literal["midpoint", "trapezoid"] = "midpoint"
    """How the integral becomes a sum. `midpoint`: α_k = (k + ½)/steps, equal weights. `trapezoid`: α_k from 0 to 1 with
    both ends, which weigh half. Errors of both fall with steps²; that of the midpoint rule is half as large."""
    special: bool = False
    """Move special tokens too. Otherwise they stay as they are, also in the baseline, and score 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule == "trapezoid" and self.steps < 2:
            raise OptionError(f"steps={self.steps} is too few: the trapezoid rule needs 2")

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        points, weights = self._path()
        if self.baseline != "zero":
            model.check_fill(self.baseline)
        asked = ask(model, examples, targets)
        ends = self._baselines(asked)
        sums: list[np.ndarray | float] = [0.0] * len(examples)
        starts = [float("nan")] * len(examples)
        for rows, steps in asked.in_chunks(len(points), self.name):
            scores, values = _along(asked, ends, rows, [points[k] for k in steps])
            for n, k, part, value in zip(rows, steps, scores, values, strict=True):
                sums[n] = sums[n] + weights[k] * part
                if k == 0:
                    starts[n] = value
        return [
            self.build(
                model,
                example,
                scores=sums[n],
                **asked.facts(n),
                conservation=Conservation(
                    inputs=float(np.sum(sums[n])),
                    target=float(asked.here.target[n]),
                    sinks={"baseline": starts[n]},
                ),
            )
            for n, example in enumerate(examples)
        ]

    def _path(self) -> tuple[list[float], list[float]]:
        """Points α and their weights. The first is always the baseline itself, for the receipt."""
        if self.rule == "midpoint":
            return [0.0, *((k + 0.5) / self.steps for k in range(self.steps))], [0.0] + [1 / self.steps] * self.steps
        last = self.steps - 1
        ends = {0, last}
        return [k / last for k in range(self.steps)], [(1 - 0.5 * (k in ends)) / last for k in range(self.steps)]

    def _baselines(self, asked: Asked) -> list[Tensor]:
        """The value of every leaf at the baseline, by its places in the source."""
        here = asked.here.leaves
        if self.baseline == "zero":
            values = [torch.zeros_like(leaf.tensor) for leaf in here]
        else:
            values = leaves_of(asked.model.forward, self._emptied(asked))
        if [v.shape for v in values] != [leaf.tensor.shape for leaf in here]:
            raise ModelError("the model looks other things up for the baseline than for the input. Use baseline='zero'")
        return [self._moved(asked, leaf, value) for leaf, value in zip(here, values, strict=True)]

    def _emptied(self, asked: Asked) -> Batch:
        """The batch with every feature replaced."""
        model = asked.model
        empty = [model.masked(e, np.zeros(e.count, dtype=bool), self.baseline) for e in asked.examples]
        made = model.collate(empty)
        return replace(made, inputs={**made.inputs, **made.looked_up}, looked_up={})

    def _moved(self, asked: Asked, leaf: Leaf, value: Tensor) -> Tensor:
        """The baseline of a leaf, with everything that stays in its place as it is: special tokens and padding."""
        source = asked.batch.inputs[leaf.source]
        start, end = by_place(leaf, value, source), by_place(leaf, leaf.tensor.detach(), source)
        stays = torch.ones(source.shape[:2], dtype=torch.bool)
        for n, example in enumerate(asked.examples):
            stays[n, asked.batch.places_of(leaf.source, n)] = self._fixed(leaf.source, example)
        stays = stays.to(source.device)
        return torch.where(stays.reshape(*stays.shape, *(1,) * (start.dim() - 2)), end, start)

    def _fixed(self, source: str, example: Example) -> Tensor | bool:
        """Which tokens of an example do not move."""
        part = next(part for part in example.parts if part.source.name == source)
        return False if self.special or not any(part.special) else torch.tensor(part.special)


def _along(
    asked: Asked, ends: list[Tensor], rows: list[int], points: list[float]
) -> tuple[list[np.ndarray], list[float]]:
    """Scores (x − b) · ∂f/∂x and values f at one point of the path for each row."""
    differences: list[Tensor] = []

    def change(leaf: Leaf, number: int) -> Tensor:
        start = rows_of(leaf, ends[number][rows])
        if leaf.positions is not None:  # what belongs to no token stays where it is
            start = torch.where((leaf.positions >= 0).unsqueeze(-1), start, leaf.tensor)
        differences.append(leaf.tensor - start)
        alpha = (
            torch.tensor(points, dtype=torch.float64)
            .reshape(-1, *(1,) * (ends[number].dim() - 1))
            .expand_as(ends[number][rows])
        )
        return start + rows_of(leaf, alpha.to(leaf.tensor)) * differences[-1]

    done = asked.again(rows, change)
    found = done.collected(lambda number, _, grad: widened(differences[number]) * grad)
    scores = [asked.scores(found, n, row).astype(np.float64) for row, n in enumerate(rows)]
    return scores, done.target.tolist()
