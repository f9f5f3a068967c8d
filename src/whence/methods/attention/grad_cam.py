"""Grad-CAM on attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from whence.methods.attention.attention_method import AbstractAttentionMethod, LayerMap, Variant, pick_rows
from whence.methods.method import methods

__all__ = ["AttentionGradCAM"]


@methods.register("attention_grad_cam")
@dataclass(frozen=True, kw_only=True)
class AttentionGradCAM(AbstractAttentionMethod):
    """The last layer's heads weighted by their mean gradient: r = ReLU(mean_h w_h A_h[row]), w_h = mean ∇A_h.

    [the Grad-CAM baseline of Chefer, Gur & Wolf, CVPR 2021]
    """

    needs_gradient: ClassVar[bool] = True

    variant: Variant = "paper"
    """`paper`: the weight is the mean over the whole map. `code`: over the predicting row alone and without its own
    column, as in the authors' code for ViT, where that is the class token's."""

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        attention, gradient = layers[-1].attention, layers[-1].gradient
        assert gradient is not None
        if self.variant == "code":
            others = [k for k in range(gradient.shape[-1]) if k not in rows] or list(range(gradient.shape[-1]))
            gradient = gradient[:, rows][:, :, others]
        weight = gradient.mean((1, 2))
        fused = (attention * weight[:, None, None]).mean(0)
        return pick_rows(fused, rows, how).clamp(min=0)
