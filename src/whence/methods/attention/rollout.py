"""Attention rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from whence.errors import InputError
from whence.methods.attention.attention_method import (
    AbstractAttentionMethod,
    Fusion,
    LayerMap,
    Residual,
    fuse,
    pick_rows,
    residual,
)
from whence.methods.method import methods

__all__ = ["Rollout", "product"]


def product(matrices: list[Tensor], start_layer: int = 0) -> Tensor:
    """M_L ⋯ M_start for matrices given first layer first; a negative start counts from the last."""
    count = len(matrices)
    if not -count <= start_layer < count:
        raise InputError(f"start_layer={start_layer} does not exist: layers are 0 to {count - 1}, or -{count} to -1")
    first, *others = matrices[start_layer:]
    total = first
    for matrix in others:
        total = matrix @ total
    return total


@methods.register("rollout")
@dataclass(frozen=True, kw_only=True)
class Rollout(AbstractAttentionMethod):
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

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        maps = [residual(fuse(m.attention, self.fusion), self.residual) for m in layers]
        scores = pick_rows(product(maps, self.start_layer), rows, how)
        if self.zero_self and len(rows) == 1:
            scores[rows] = scores.min()
        return scores
