"""SmoothGrad: the gradient averaged over noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from whence.core.gradients import rows_of
from whence.core.interception import Leaf
from whence.methods.gradient import Asked, ask
from whence.methods.method import AbstractMethod, methods
from whence.methods.noise import seed_of
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.targets import AbstractTarget
from whence.options import Count, Least
from whence.results import Explanation

__all__ = ["SmoothGrad"]


@methods.register("smooth_grad")
@dataclass(frozen=True, kw_only=True)
class SmoothGrad(AbstractMethod):
    """Saliency averaged over noise on the embeddings or pixels   [Smilkov 2017].

    R = 1/n Σ_k S(x + ε_k) with ε_k ~ N(0, σ²) and σ = noise · (max x − min x), the range over the values of the input;
    S is made of the gradient g at the noisy input, see `of`. The noise depends on the seed and on the input alone, so
    it is the same in any batch.
    """

    cost: ClassVar[str] = "1 + samples forwards and backwards"

    samples: Count = 16
    """How many times noise is drawn."""
    noise: Annotated[float, Least(0)] = 0.1
    """σ as a share of the range of the values; the paper takes 0.1 to 0.2. 0 is the plain gradient."""
    of: Literal["gradient_input", "gradient", "squared"] = "gradient_input"
    """What is averaged: `gradient_input`, Σ_d x_d g_d with x free of noise, has a sign; `gradient`, ‖g‖ over channels,
    is the paper's average of saliency maps; `squared`, Σ_d g_d², is SmoothGrad-Squared [Hooker 2019]."""
    seed: int = 0
    """Another seed, other noise."""

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        asked = ask(model, examples, targets)
        sums: list[np.ndarray | float] = [0.0] * len(examples)
        for rows, samples in asked.in_chunks(self.samples, self.name):
            for n, scores in zip(rows, self._scores(asked, rows, samples), strict=True):
                sums[n] = sums[n] + scores / self.samples
        return [
            self.build(
                model,
                example,
                scores=sums[n],
                **asked.facts(n),
            )
            for n, example in enumerate(examples)
        ]

    def _scores(self, asked: Asked, rows: list[int], samples: list[int]) -> list[np.ndarray]:
        """Scores of one chunk, one array for each row."""
        clean: list[Tensor] = []

        def change(leaf: Leaf, number: int) -> Tensor:
            clean.append(leaf.tensor)
            return leaf.tensor + self._noise(asked, leaf, number, rows, samples)

        def combine(number: int, _: Tensor, grad: Tensor) -> Tensor:
            return clean[number] * grad if self.of == "gradient_input" else grad.square()

        found = asked.again(rows, change).collected(combine)
        scores = [asked.scores(found, n, row).astype(np.float64) for row, n in enumerate(rows)]
        return [np.sqrt(s) for s in scores] if self.of == "gradient" else scores

    def _noise(self, asked: Asked, leaf: Leaf, number: int, rows: list[int], samples: list[int]) -> Tensor:
        """Noise for a leaf, each row with its own. What a model looks up beside the tokens gets none."""
        channels = () if leaf.positions is None else leaf.tensor.shape[-1:]
        shape = asked.batch.inputs[leaf.source].shape[1:]
        noise = torch.zeros(len(rows), *shape, *channels, dtype=torch.float32)
        for row, (n, sample) in enumerate(zip(rows, samples, strict=True)):
            places = asked.batch.places_of(leaf.source, n)
            generator = torch.Generator().manual_seed(seed_of(asked.examples[n], self.seed, sample, number))
            # float32 whatever torch's default is: another type draws other numbers
            drawn = torch.randn(*noise[row, places].shape, generator=generator, dtype=torch.float32)
            noise[row, places] = drawn * self.noise * _range(leaf, row, places, shape)
        return rows_of(leaf, noise.to(leaf.tensor))


def _range(leaf: Leaf, row: int, places: Tensor, shape: torch.Size) -> float:
    """max − min of the values that row `row` holds at `places`."""
    if leaf.positions is None:
        own = leaf.tensor[row, places.to(leaf.tensor.device)]
    else:
        wanted = row * shape.numel() + places.to(leaf.positions.device)
        own = leaf.tensor[torch.isin(leaf.positions, wanted)]
    return float(own.max() - own.min()) if own.numel() else 0.0
