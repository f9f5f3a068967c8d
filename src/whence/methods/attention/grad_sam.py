"""Grad-SAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from whence.core.capture import AttentionMap
from whence.core.kernels.layer_map import AbstractMap
from whence.core.streaming import stream
from whence.methods.attention.attention_method import LayerMap, check_maps
from whence.methods.attention.streamed_method import AbstractStreamedMethod, Passed, Passing
from whence.methods.method import methods
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import ExampleBatch

__all__ = ["GradSAM"]


@methods.register("grad_sam")
@dataclass(frozen=True, kw_only=True)
class GradSAM(AbstractStreamedMethod):
    """Attention where more of it helps: r_i = 1/(LMN) Σ_l Σ_m Σ_j [A ⊙ ReLU(∂s/∂A)]_ij   [Barkan et al. 2021].

    L layers, M heads, N tokens; i is the query row. Not an average over one row: `row` is not used.
    """

    needs_gradient: ClassVar[bool] = True

    axis: Literal["query", "key"] = "query"
    """Which token gets the score: the one that attends (`query`, as published) or the one attended to (`key`)."""

    def passed(self, model: AbstractAdapter, batch: ExampleBatch, scores: TargetScores) -> Passed:
        passing, sums = Passing(batch), []

        def visit(made: AttentionMap, found: AbstractMap) -> None:
            tokens = passing.tokens(made, found)
            sums.append(found.helpful_columns(tokens.own) if self.axis == "key" else found.helpful_rows())

        seen = stream(model.forward, batch, target=scores, visitor=visit)
        check_maps(seen.maps, self.name)
        tokens = passing.finished(seen)
        levels, heads = len({made.level for made in seen.maps}), seen.maps[0].heads_beside
        return seen, tokens, torch.stack(sums).sum(0) / (levels * heads * tokens.count)

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        heads, length, _ = layers[0].attention.shape
        return sum(self._summed(m) for m in layers) / (len(layers) * heads * length)  # type: ignore[return-value]

    def encoder_decoder_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> tuple[Tensor, Tensor]:
        """Encoder self-attention scores the source, decoder self-attention the decoder; cross-attention by its axis."""
        source, decoder = ([m for m in layers if m.stream == s] for s in ("encoder", "decoder"))
        cross = [m for m in layers if m.stream == "cross"]
        (source if self.axis == "key" else decoder).extend(cross)
        return self._averaged(source), self._averaged(decoder)

    def _averaged(self, layers: list[LayerMap]) -> Tensor:
        heads, length = layers[0].attention.shape[0], layers[0].attention.shape[-1]
        return sum(self._summed(m) for m in layers) / (len(layers) * heads * length)  # type: ignore[return-value]

    def _summed(self, layer: LayerMap) -> Tensor:
        product = layer.attention * layer.gradient.clamp(min=0)  # type: ignore[union-attr]
        return product.sum((0, 2) if self.axis == "query" else (0, 1))
