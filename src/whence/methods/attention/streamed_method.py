"""Attention methods that need sums and rows of maps and no map: they take each as it passes and hold none."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from whence.core.capture import AttentionMap
from whence.core.kernels.layer_map import AbstractMap
from whence.core.streaming import Streamed
from whence.methods.attention.attention_method import (
    AbstractAttentionMethod,
    Fusion,
    Row,
    held_of,
    rows_of,
    to_features,
)
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import Example, ExampleBatch
from whence.models.targets import AbstractTarget
from whence.results import Explanation

__all__ = ["AbstractStreamedMethod", "CannotStream", "Passed", "Passing", "Tokens", "fused_columns", "levels_of"]

LARGE = 2**19
"""Elements of a head's maps of a batch from which they are not written down, on a CPU."""


class CannotStream(Exception):
    """The maps of this model are of several sizes or sequences: they must be written down to be understood."""


class Tokens:
    """The tokens that the maps of a batch are over: whose they are, and which of them predict."""

    def __init__(self, batch: ExampleBatch, like: AbstractMap):
        if like.queries != like.keys:
            raise CannotStream
        self.batch, self.length, self.device = batch, like.keys, like.device

    def places(self, n: int) -> Tensor:
        held = held_of(self.batch, n, self.batch.names[0], self.length)
        return torch.arange(self.length) if held is None else held

    @cached_property
    def own(self) -> Tensor:
        """1 for the tokens of each example, 0 for padding: (batch, token)."""
        marks = torch.zeros(self.batch.examples, self.length)
        for n in range(self.batch.examples):
            marks[n, self.places(n)] = 1
        return marks.to(self.device)

    @property
    def count(self) -> Tensor:
        """Tokens of each example, (batch, 1)."""
        return self.own.sum(1, keepdim=True)

    def predicting(self, row: Row, last: AbstractMap) -> tuple[list[list[int]], Tensor]:
        """Of each example the places that predict, and their weights, (batch, token)."""
        read = last.read_rows().cpu() if last.has_gradient else torch.zeros(self.batch.examples, self.length) > 0
        rows, weights = [], torch.zeros(self.batch.examples, self.length)
        for n, example in enumerate(self.batch.rows):
            own = self.places(n)
            chosen, how = rows_of(row, example, len(own), read[n][own].nonzero().flatten().tolist())
            rows.append(own[chosen].tolist())
            weights[n, own[chosen]] = 1.0 if how == "column_sum" else 1 / len(chosen)
        return rows, weights.to(self.device)


Passed = tuple[Streamed, Tokens, Tensor]
"""What was seen in a pass over a batch, its tokens, and one number for each, (batch, token)."""


def levels_of(seen: Streamed) -> list[list[AbstractMap]]:
    """Attentions that stand side by side, first layer first."""
    levels: dict[int, list[AbstractMap]] = {}
    for made, held in zip(seen.maps[-len(seen.held) :], seen.held, strict=True):
        levels.setdefault(made.level, []).append(held)
    if len({(m.queries, m.keys) for m in seen.held}) != 1 or any(made.stream != "self" for made in seen.maps):
        raise CannotStream
    if sum(made.level == seen.maps[-1].level for made in seen.maps) != len(levels[seen.maps[-1].level]):
        raise CannotStream  # of the last level only one is held
    return list(levels.values())


def fused_columns(level: list[AbstractMap], weights: Tensor, fusion: Fusion) -> Tensor:
    """Σ_q w_q fuse_h(P)_qk over all heads of a level: (batch, key)."""
    if fusion == "mean":
        heads = sum(m.heads for m in level)
        return torch.stack([m.columns(weights) for m in level]).sum(0) / heads
    total = torch.zeros_like(weights)
    for parts in zip(*(m.chunks() for m in level), strict=True):
        at, heads_of = parts[0][0], torch.cat([p for _, p in parts], 1)
        fused = heads_of.amax(1) if fusion == "max" else heads_of.amin(1)
        total[:, : fused.shape[-1]] += torch.einsum("bq,bqk->bk", weights[:, at].to(fused), fused)
    return total


@dataclass(frozen=True, kw_only=True)
class AbstractStreamedMethod(AbstractAttentionMethod):
    """A method whose scores come from sums over maps."""

    stream: bool | None = None
    """Take each map in tiles and hold none, so that memory stays linear in the input. By default on a GPU and for
    long inputs; False writes all maps down."""

    @abstractmethod
    def passed(self, model: AbstractAdapter, batch: ExampleBatch, scores: TargetScores) -> Passed:
        """One pass over a batch."""

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        if model.reads_apart or not self._streams(model, examples):
            return super().explain(model, examples, targets)
        batch = model.collate(examples, targets)
        asked = TargetScores(model, batch, targets)
        try:
            seen, tokens, found = self.passed(model, batch, asked)
        except CannotStream:
            return super().explain(model, examples, targets)
        self.check(model, batch, seen)
        predictions, scores = model.predictions(seen.outputs, batch), seen.target.tolist()
        home = found.float().cpu()
        return [
            self.build(
                model,
                example,
                scores=self._features(model, example, home[n][tokens.places(n)]),
                target=asked.names[n],
                target_score=float(scores[n]),
                prediction=predictions[n],
            )
            for n, example in enumerate(examples)
        ]

    def _features(self, model: AbstractAdapter, example: Example, scores: Tensor) -> np.ndarray:
        return to_features(model, example, scores)

    def _streams(self, model: AbstractAdapter, examples: Sequence[Example]) -> bool:
        if model.attends_across or self.stream is False:
            return False
        return self.stream is True or model.device.type == "cuda" or sum(e.cost**2 for e in examples) > LARGE


class Passing:
    """What a visitor knows of the maps that passed it."""

    def __init__(self, batch: ExampleBatch):
        self.batch = batch
        self._tokens: Tokens | None = None
        self._levels: set[int] = set()

    def tokens(self, made: AttentionMap, found: AbstractMap) -> Tokens:
        """The tokens that all maps are over; `CannotStream` if this one is not."""
        if self._tokens is None:
            self._tokens = Tokens(self.batch, found)
        if made.stream != "self" or (found.queries, found.keys) != (self._tokens.length,) * 2:
            raise CannotStream
        return self._tokens

    def is_new_level(self, made: AttentionMap) -> bool:
        """Whether an attention is the first of its level that passes."""
        new = made.level not in self._levels
        self._levels.add(made.level)
        return new

    def finished(self, seen: Streamed) -> Tokens:
        """The tokens, once the pass is over."""
        if self._tokens is None or seen.in_parts:
            raise CannotStream
        return self._tokens
