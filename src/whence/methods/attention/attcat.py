"""AttCAT: attentive class activation tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from whence.errors import ModelError
from whence.methods.attention.attention_method import AbstractAttentionMethod, LayerMap
from whence.methods.method import methods

__all__ = ["AttCAT"]


@methods.register("attcat")
@dataclass(frozen=True, kw_only=True)
class AttCAT(AbstractAttentionMethod):
    """Gradient×state of every layer, weighted by attention: r_i = Σ_l (mean_{h,q} A^l)_i · Σ_d h^l_id ∂y/∂h^l_id.

    h^l are the states that layer l attends to (the input of its value projection): in post-norm encoders the output of
    the layer before; in pre-norm models after the norm. `row` is not used: attention is averaged over all queries.
    [Qiang et al. 2022]
    """

    needs_gradient: ClassVar[bool] = True

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        total = layers[0].attention.new_zeros(layers[0].attention.shape[-1])
        for layer in layers:
            if layer.states is None:
                raise ModelError(
                    "attcat needs the states that attention reads, and this model computes them another way"
                )
            if layer.states_gradient is None:
                continue  # the last layer's other tokens may not matter to the target at all
            activation = (layer.states * layer.states_gradient).sum(-1)
            total = total + layer.attention.mean((0, 1)) * activation
        return total
