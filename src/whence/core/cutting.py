"""Places cut off from each other: what leads from one to another by way of no third.

While the model runs, each place becomes an end of the backward pass, as looked-up embeddings are, and what comes behind
begins there. A pass back from what one place gave then reaches the places before it through what the model adds up and
normalises between them, and through nothing else: the edges of a model's graph [Syed et al. 2023].
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whence.core.batch import Batch
from whence.core.interception import Change, Interception
from whence.core.layout import Layout
from whence.core.memory import planned
from whence.core.place_watch import PlaceWatch
from whence.core.propagation import Forward, Target, backward, intercepted, run
from whence.core.recipe import Recipe
from whence.core.rules import table

__all__ = ["CutPlace", "CutRun"]


@dataclass(frozen=True)
class CutPlace:
    """A place of a run in which all places are cut off."""

    kind: str
    given: Tensor
    """What came to it, with its graph."""
    end: Tensor
    """What went on from it: the same value, where passes back end."""


class CutRun:
    """One forward pass over a batch of one example with its places cut off, and many passes back.

    >>> import torch
    >>> from whence.core.recipe import recipes
    >>> class Block(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.out = torch.nn.Linear(2, 2)
    ...     def forward(self, x):
    ...         return x + self.out(torch.nn.functional.scaled_dot_product_attention(x, x, x))
    >>> net = torch.nn.Sequential(Block(), Block())
    >>> batch = Batch.of({"x": torch.ones(1, 1, 3, 2)}, "x")
    >>> with CutRun(lambda i: net(i["x"]), batch, module=net, target=lambda y: y.sum((1, 2, 3)), recipe=recipes["gi"],
    ...             kinds=["attentions"]) as cut:
    ...     (inputs,), (first, second) = cut.back(cut.scores, torch.ones(1))  # all three are added up
    >>> torch.equal(inputs, first), torch.equal(first, second)
    (True, True)
    """

    def __init__(
        self,
        forward: Forward,
        batch: Batch,
        *,
        module: nn.Module,
        target: Target,
        recipe: Recipe,
        kinds: Sequence[str],
        change: Change | None = None,
    ):
        self._forward, self._target = forward, target
        self._mode = Interception(batch, {}, recipe=recipe, change=change)
        self._watch = PlaceWatch(module, kinds, (), self._mode.ledger, change=self._cut)
        self._mode.rules = self._watch.rules(table(recipe))
        self.places: list[CutPlace] = []
        """In the order in which they were computed."""
        self.scores = torch.empty(0)
        """The target, with its graph."""

    def _cut(self, kind: str, number: int, value: Tensor, layout: Layout | None) -> Tensor:
        end = value.detach().clone().requires_grad_()
        self.places.append(CutPlace(kind, value, end))
        return end.clone()  # a leaf would be taken for a parameter

    def __enter__(self) -> CutRun:
        def scored(outputs: Any) -> Tensor:
            self._watch.end()
            return self._target(outputs)

        self._open = ExitStack()
        self._open.enter_context(closing(self._mode))
        try:
            with planned("keep"), self._watch.hooked(), intercepted(self._mode):
                self.scores, _ = run(self._mode, self._forward, scored)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()
        self.places, self.scores = [], torch.empty(0)

    def back(self, root: Tensor, start: Tensor) -> tuple[list[Tensor | None], list[Tensor | None]]:
        """`start` · ∂ root / ∂ what the inputs and every place send there directly; None where nothing leads."""
        inputs = [leaf.tensor for leaf in self._mode.leaves]
        if not root.requires_grad:
            return [None] * len(inputs), [None] * len(self.places)
        with intercepted(self._mode):
            grads = backward(root, [*inputs, *(place.end for place in self.places)], start=[start], keep=True)
        return list(grads[: len(inputs)]), list(grads[len(inputs) :])
