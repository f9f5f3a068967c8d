"""Transformer attribution (Chefer, Gur & Wolf, CVPR 2021) and partial LRP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from whence.methods.attention.attention_method import AbstractAttentionMethod, LayerMap, Variant, pick_rows, residual
from whence.methods.attention.rollout import product
from whence.methods.method import methods

__all__ = ["PartialLRP", "TransformerAttribution"]


@methods.register("transformer_attribution")
@dataclass(frozen=True, kw_only=True)
class TransformerAttribution(AbstractAttentionMethod):
    """Relevance of attention times its gradient, rolled out: Ā = I + mean_h(∇A ⊙ R_A)⁺, C = Ā_B ⋯ Ā_1, r = C[row].

    R_A comes from LRP in the relevance currency: α1β0 on signed parts, normalised Add (per example, so batches are
    right), both sides of matrix products halved, one-hot at the target.   [Chefer, Gur & Wolf, CVPR 2021, eq. 3–14]
    """

    needs_relevance: ClassVar[bool] = True
    multiplies: ClassVar[bool] = True
    cost: ClassVar[str] = "2 forward, 2 backward (gradients; relevance)"

    variant: Variant = "paper"
    """`paper`: no row normalisation, from the first layer (as their ViT code). `code`: their BERT code, which
    normalises rows, starts at the last layer unless `start_layer` says otherwise, and gives the predicting token the
    smallest score."""
    start_layer: int | None = None
    """First layer of the product."""
    ablation: Literal["none", "attention", "last_block", "first_block"] = "none"
    """The paper's ablations: A in place of ∇A; the last block alone; the first block alone."""

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        maps = [self._weighted(m) for m in layers]
        if self.ablation == "last_block":
            return pick_rows(maps[-1], rows, how)
        if self.ablation == "first_block":
            return pick_rows(maps[0], rows, how)
        code = self.variant == "code"
        start = self.start_layer if self.start_layer is not None else (len(maps) - 1 if code else 0)
        kind: Literal["add_identity", "add_identity_then_normalise"] = (
            "add_identity_then_normalise" if code else "add_identity"
        )
        scores = pick_rows(product([residual(m, kind) for m in maps], start), rows, how)
        if code and len(rows) == 1:
            scores[rows] = scores.min()
        return scores

    def _weighted(self, layer: LayerMap) -> Tensor:
        weight = layer.attention if self.ablation == "attention" else layer.gradient
        return (weight * layer.relevance).clamp(min=0).mean(0)  # type: ignore[operator]


@methods.register("partial_lrp")
@dataclass(frozen=True, kw_only=True)
class PartialLRP(AbstractAttentionMethod):
    """Relevance of the last layer's attention alone: r = (mean_h R_A⁺)[row]   [Voita et al. 2019; Chefer 2021]."""

    needs_relevance: ClassVar[bool] = True
    cost: ClassVar[str] = "2 forward, 2 backward"

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        relevance = layers[-1].relevance
        assert relevance is not None
        return pick_rows(relevance.clamp(min=0).mean(0), rows, how)
