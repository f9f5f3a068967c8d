"""Generic attention explainability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from whence.core.capture import AttentionMap
from whence.core.kernels.layer_map import AbstractMap
from whence.core.streaming import stream
from whence.methods.attention.attention_method import (
    LayerMap,
    Variant,
    check_maps,
    pick_rows,
    residual,
)
from whence.methods.attention.rollout import product
from whence.methods.attention.streamed_method import AbstractStreamedMethod, CannotStream, Passed, Passing
from whence.methods.method import methods
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import ExampleBatch

__all__ = ["GAE", "weighted"]


def weighted(attention: Tensor, gradient: Tensor) -> Tensor:
    """Ā = mean_h (∇A ⊙ A)⁺, over the head axis (third from the end)."""
    return (gradient * attention).clamp(min=0).mean(-3)


@methods.register("gae")
@dataclass(frozen=True, kw_only=True)
class GAE(AbstractStreamedMethod):
    """Gradient-weighted attention accumulated through the layers: R ← R + Ā R, Ā = mean_h(∇A ⊙ A)⁺, R₀ = I; r = R[row].

    Encoder-decoders follow the paper's update rules: R_ee and R_dd as above; decoder self-attention also carries
    R_de ← R_de + Ā R_de; cross-attention R_de ← R_de + R̄_ddᵀ Ā R̄_ee with R̄ = rownorm(R - I) + I.
    [Chefer, Gur & Wolf, ICCV 2021, eq. 5–11]
    """

    needs_gradient: ClassVar[bool] = True
    multiplies: ClassVar[bool] = True

    variant: Variant = "paper"
    """`paper`: as above. `code`: row-normalised rollout of the same maps, as in the public code of Ali 2022."""

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        maps = [weighted(m.attention, m.gradient) for m in layers]  # type: ignore[arg-type]
        if self.variant == "code":
            return pick_rows(product([residual(m, "add_identity_then_normalise") for m in maps]), rows, how)
        return pick_rows(product([residual(m, "add_identity") for m in maps]), rows, how)

    def encoder_decoder_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> tuple[Tensor, Tensor]:
        source = next(m.attention.shape[-1] for m in layers if m.stream == "cross")
        target = next(m.attention.shape[-1] for m in layers if m.stream == "decoder")
        like = layers[0].attention
        ee, dd, de = (_eye(source, like), _eye(target, like), like.new_zeros(target, source))
        for layer in layers:
            a = weighted(layer.attention, layer.gradient)  # type: ignore[arg-type]
            if layer.stream == "encoder":
                ee = ee + a @ ee
            elif layer.stream == "decoder":
                dd, de = dd + a @ dd, de + a @ de
            else:
                de = de + _normalised(dd).T @ a @ _normalised(ee)
        return pick_rows(de, rows, how), pick_rows(dd, rows, how)

    def passed(self, model: AbstractAdapter, batch: ExampleBatch, scores: TargetScores) -> Passed:
        """r ← r + r Ā from the last layer to the first: the order of the backward pass."""
        passing, running = Passing(batch), dict[str, Tensor]()

        def visit(made: AttentionMap, found: AbstractMap) -> None:
            tokens = passing.tokens(made, found)
            if not running:
                running["r"] = tokens.predicting(self.row, found)[1]
            if passing.is_new_level(made):  # attentions side by side read the same r
                if self.variant == "code":
                    if made.heads != made.heads_beside:
                        raise CannotStream
                    running["r"] = running["r"] / (1 + found.helpful_rows() / made.heads)
                running["above"] = running["r"]
            running["r"] = running["r"] + found.helpful_columns(running["above"]) / made.heads_beside

        seen = stream(model.forward, batch, target=scores, visitor=visit)
        check_maps(seen.maps, self.name)
        tokens = passing.finished(seen)
        return seen, tokens, running["r"]


def _eye(size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=like.dtype, device=like.device)


def _normalised(matrix: Tensor) -> Tensor:
    """R̄ = rownorm(R - I) + I  [eq. 8, 9]."""
    eye = _eye(matrix.shape[0], matrix)
    rest = matrix - eye
    return rest / rest.sum(-1, keepdim=True).clamp_min(1e-12) + eye
