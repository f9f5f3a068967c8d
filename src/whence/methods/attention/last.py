"""Attention of the last layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from whence.core.streaming import look
from whence.methods.attention.attention_method import (
    Fusion,
    LayerMap,
    Variant,
    check_maps,
    fuse,
    pick_rows,
)
from whence.methods.attention.streamed_method import AbstractStreamedMethod, Passed, Tokens, fused_columns, levels_of
from whence.methods.method import methods
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import ExampleBatch

__all__ = ["AttentionLast"]


@methods.register("attention_last")
@dataclass(frozen=True, kw_only=True)
class AttentionLast(AbstractStreamedMethod):
    """The last layer's attention, heads fused: r = mean_h A^L[row]   [A-Last in Ali 2022].

    In an encoder-decoder: the last cross-attention for source tokens, the last self-attention for decoder tokens.
    """

    class_specific: ClassVar[bool] = False
    cost: ClassVar[str] = "1 forward"

    fusion: Fusion = "mean"
    """How heads become one map: `mean`, `max`, `min`."""
    variant: Variant = "paper"
    """`paper`: the predicting row. `code`: the authors' public code sums the columns over all rows."""

    def passed(self, model: AbstractAdapter, batch: ExampleBatch, scores: TargetScores) -> Passed:
        seen = look(model.forward, batch, target=scores, only_last=True)
        check_maps(seen.maps, self.name)
        level = levels_of(seen)[-1]
        tokens = Tokens(batch, level[-1])
        weights = tokens.own if self.variant == "code" else tokens.predicting(self.row, level[-1])[1]
        return seen, tokens, fused_columns(level, weights, self.fusion)

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        fused = fuse(layers[-1].attention, self.fusion)
        return fused.sum(0) if self.variant == "code" else pick_rows(fused, rows, how)

    def encoder_decoder_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> tuple[Tensor, Tensor]:
        cross, own = (next(m for m in reversed(layers) if m.stream == stream) for stream in ("cross", "decoder"))
        return tuple(self.token_scores([m], rows, how) for m in (cross, own))  # type: ignore[return-value]
