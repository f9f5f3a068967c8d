"""AttCAT: attentive class activation tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from whence.core.capture import AttentionMap
from whence.core.kernels.layer_map import AbstractMap
from whence.core.streaming import stream
from whence.errors import ModelError
from whence.methods.attention.attention_method import LayerMap, check_maps
from whence.methods.attention.streamed_method import AbstractStreamedMethod, Passed, Passing
from whence.methods.method import methods
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import ExampleBatch

__all__ = ["AttCAT"]

NO_STATES = "attcat needs the states that attention reads, and this model computes them another way"


@methods.register("attcat")
@dataclass(frozen=True, kw_only=True)
class AttCAT(AbstractStreamedMethod):
    """Gradient×state of every layer, weighted by attention: r_i = Σ_l (mean_{h,q} A^l)_i · Σ_d h^l_id ∂y/∂h^l_id.

    h^l are the states that layer l attends to (the input of its value projection): in post-norm encoders the output of
    the layer before; in pre-norm models after the norm. `row` is not used: attention is averaged over all queries.
    [Qiang et al. 2022]
    """

    needs_gradient: ClassVar[bool] = True

    def passed(self, model: AbstractAdapter, batch: ExampleBatch, scores: TargetScores) -> Passed:
        passing = Passing(batch)
        columns: dict[int, Tensor] = {}

        def visit(made: AttentionMap, found: AbstractMap) -> None:
            tokens = passing.tokens(made, found)
            mean = found.columns(tokens.own) / (made.heads_beside * tokens.count)
            columns[made.level] = columns[made.level] + mean if made.level in columns else mean

        seen = stream(model.forward, batch, target=scores, visitor=visit, states=True)
        check_maps(seen.maps, self.name)
        tokens = passing.finished(seen)
        total = torch.zeros_like(tokens.own)
        first = {made.level: made.number for made in reversed(seen.maps)}
        for level, mean in columns.items():
            if first[level] not in seen.activations:
                raise ModelError(NO_STATES)
            activation = seen.activations[first[level]]
            if activation is not None:
                total = total + mean * activation
        return seen, tokens, total

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        total = layers[0].attention.new_zeros(layers[0].attention.shape[-1])
        for layer in layers:
            if layer.states is None:
                raise ModelError(NO_STATES)
            if layer.states_gradient is None:
                continue  # the last layer's other tokens may not matter to the target at all
            activation = (layer.states * layer.states_gradient).sum(-1)
            total = total + layer.attention.mean((0, 1)) * activation
        return total
