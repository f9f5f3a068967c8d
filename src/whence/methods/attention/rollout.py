"""Attention rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from whence.core.kernels.layer_map import AbstractMap
from whence.core.streaming import look
from whence.errors import InputError
from whence.methods.attention.attention_method import (
    Fusion,
    LayerMap,
    Residual,
    check_maps,
    fuse,
    pick_rows,
    residual,
)
from whence.methods.attention.streamed_method import AbstractStreamedMethod, Passed, Tokens, fused_columns, levels_of
from whence.methods.method import methods
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import ExampleBatch

__all__ = ["Rollout", "product"]

T = TypeVar("T")


def from_layer(layers: list[T], start_layer: int) -> list[T]:
    """The layers from one on; a negative number counts from the last."""
    count = len(layers)
    if not -count <= start_layer < count:
        raise InputError(f"start_layer={start_layer} does not exist: layers are 0 to {count - 1}, or -{count} to -1")
    return layers[start_layer:]


def product(matrices: list[Tensor], start_layer: int = 0) -> Tensor:
    """M_L ⋯ M_start for matrices given first layer first; a negative start counts from the last."""
    first, *others = from_layer(matrices, start_layer)
    total = first
    for matrix in others:
        total = matrix @ total
    return total


def _row_sums(level: list[AbstractMap], fusion: Fusion) -> Tensor:
    """Σ_k fuse_h(P)_qk: (batch, query)."""
    if fusion == "mean":
        return torch.stack([m.row_sums * m.heads for m in level]).sum(0) / sum(m.heads for m in level)
    sums = []
    for parts in zip(*(m.chunks() for m in level), strict=True):
        heads = torch.cat([p for _, p in parts], 1)
        sums.append((heads.amax(1) if fusion == "max" else heads.amin(1)).sum(-1))
    return torch.cat(sums, -1)


@methods.register("rollout")
@dataclass(frozen=True, kw_only=True)
class Rollout(AbstractStreamedMethod):
    """Attention multiplied through the layers: r = (Â_L ⋯ Â_1)[row], Â = rownorm(mean_h A + I).

    [Abnar & Zuidema 2020, sec. 3] Rows of the product sum to one with the default residual.
    """

    class_specific: ClassVar[bool] = False
    multiplies: ClassVar[bool] = True
    cost: ClassVar[str] = "1 forward"

    fusion: Fusion = "mean"
    """How heads become one map: `mean`, `max`, `min`."""
    residual: Residual = "add_identity_then_normalise"
    """The skip connection: `none`, `add_identity` (as Chefer et al. write it), `add_identity_then_normalise`."""
    start_layer: int = 0
    """First layer of the product."""
    zero_self: bool = False
    """Set the predicting token's own score to the smallest, as the authors of Chefer 2021 do for [CLS]."""

    def passed(self, model: AbstractAdapter, batch: ExampleBatch, scores: TargetScores) -> Passed:
        """r ← r Â from the last layer to the first: a row times a map, and never a map times a map."""
        seen = look(model.forward, batch, target=scores)
        check_maps(seen.maps, self.name)
        levels = levels_of(seen)
        tokens = Tokens(batch, levels[-1][-1])
        rows, r = tokens.predicting(self.row, levels[-1][-1])
        for level in reversed(from_layer(levels, self.start_layer)):
            r = self._step(level, r)
        if self.zero_self:
            for n, own in enumerate(rows):
                if len(own) == 1:
                    r[n, own] = r[n][tokens.places(n).to(r.device)].min()
        return seen, tokens, r

    def _step(self, level: list[AbstractMap], r: Tensor) -> Tensor:
        if self.residual == "none":
            return fused_columns(level, r, self.fusion)
        if self.residual == "add_identity_then_normalise":
            r = r / (1 + _row_sums(level, self.fusion)).to(r)
        return r + fused_columns(level, r, self.fusion)

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        maps = [residual(fuse(m.attention, self.fusion), self.residual) for m in layers]
        scores = pick_rows(product(maps, self.start_layer), rows, how)
        if self.zero_self and len(rows) == 1:
            scores[rows] = scores.min()
        return scores
