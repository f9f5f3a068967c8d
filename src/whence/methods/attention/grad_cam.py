"""Grad-CAM on attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from whence.core.streaming import look
from whence.methods.attention.attention_method import LayerMap, Variant, check_maps, pick_rows
from whence.methods.attention.streamed_method import AbstractStreamedMethod, CannotStream, Passed, Tokens, levels_of
from whence.methods.method import methods
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import ExampleBatch

__all__ = ["AttentionGradCAM"]


@methods.register("attention_grad_cam")
@dataclass(frozen=True, kw_only=True)
class AttentionGradCAM(AbstractStreamedMethod):
    """The last layer's heads weighted by their mean gradient: r = ReLU(mean_h w_h A_h[row]), w_h = mean ∇A_h.

    [the Grad-CAM baseline of Chefer, Gur & Wolf, CVPR 2021]
    """

    needs_gradient: ClassVar[bool] = True

    variant: Variant = "paper"
    """`paper`: the weight is the mean over the whole map. `code`: over the predicting row alone and without its own
    column, as in the authors' code for ViT, where that is the class token's."""

    def passed(self, model: AbstractAdapter, batch: ExampleBatch, scores: TargetScores) -> Passed:
        seen = look(model.forward, batch, target=scores, only_last=True)
        check_maps(seen.maps, self.name)
        level = levels_of(seen)[-1]
        last = level[-1]
        if len(level) > 1 or not last.has_gradient:
            raise CannotStream
        tokens = Tokens(batch, last)
        start = tokens.predicting(self.row, last)[1]
        queries = keys = tokens.own
        if self.variant == "code":
            queries, keys = (start > 0).to(tokens.own), tokens.own * (start == 0)
            keys = torch.where(keys.sum(1, keepdim=True) > 0, keys, tokens.own)
        pairs = queries.sum(1, keepdim=True) * keys.sum(1, keepdim=True)
        weight = last.gradient_sums(queries, keys) / pairs
        fused = (last.columns_by_head(start) * weight[:, :, None]).mean(1)
        return seen, tokens, fused.clamp(min=0)

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        attention, gradient = layers[-1].attention, layers[-1].gradient
        assert gradient is not None
        if self.variant == "code":
            others = [k for k in range(gradient.shape[-1]) if k not in rows] or list(range(gradient.shape[-1]))
            gradient = gradient[:, rows][:, :, others]
        weight = gradient.mean((1, 2))
        fused = (attention * weight[:, None, None]).mean(0)
        return pick_rows(fused, rows, how).clamp(min=0)
