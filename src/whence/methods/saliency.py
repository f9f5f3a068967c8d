"""Saliency: the size of the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from whence.methods.gradient import ask
from whence.methods.method import AbstractMethod, methods
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.targets import AbstractTarget
from whence.results import Explanation

__all__ = ["Saliency"]


@methods.register("saliency")
@dataclass(frozen=True, kw_only=True)
class Saliency(AbstractMethod):
    """How sensitive the score is to a feature: R_t = ‖∂f/∂x_t‖   [Simonyan 2014].

    The norm is over the channels of a token's embedding; in images over all pixels and colours of a patch.
    """

    norm: Literal["l2", "l1", "sum"] = "l2"
    """`l2`: √Σ g². `l1`: Σ |g|. `sum`: Σ g, with sign."""

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        norms: dict[str, Callable[[Tensor], Tensor]] = {
            "l2": lambda g: g.square(), "l1": lambda g: g.abs(), "sum": lambda g: g,
        }  # fmt: skip
        asked = ask(model, examples, targets)
        found = asked.here.collected(lambda _, value, grad: norms[self.norm](grad))
        results = []
        for n, example in enumerate(examples):
            scores = asked.scores(found, n)
            results.append(
                self.build(
                    model,
                    example,
                    scores=np.sqrt(scores) if self.norm == "l2" else scores,
                    **asked.facts(n),
                )
            )
        return results
