"""Generic attention explainability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from whence.core.capture import AttentionMap
from whence.methods.attention.attention_method import (
    AbstractAttentionMethod,
    LayerMap,
    Variant,
    choose_rows,
    held_of,
    pick_rows,
    residual,
    to_features,
)
from whence.methods.attention.rollout import product
from whence.methods.method import methods
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example, ExampleBatch
from whence.models.targets import AbstractTarget
from whence.results import Explanation

__all__ = ["GAE", "weighted"]


def weighted(attention: Tensor, gradient: Tensor) -> Tensor:
    """Ā = mean_h (∇A ⊙ A)⁺, over the head axis (third from the end)."""
    return (gradient * attention).clamp(min=0).mean(-3)


@methods.register("gae")
@dataclass(frozen=True, kw_only=True)
class GAE(AbstractAttentionMethod):
    """Gradient-weighted attention accumulated through the layers: R ← R + Ā R, Ā = mean_h(∇A ⊙ A)⁺, R₀ = I; r = R[row].

    Encoder-decoders follow the paper's update rules: R_ee and R_dd as above; decoder self-attention also carries
    R_de ← R_de + Ā R_de; cross-attention R_de ← R_de + R̄_ddᵀ Ā R̄_ee with R̄ = rownorm(R - I) + I.
    [Chefer, Gur & Wolf, ICCV 2021, eq. 5–11]
    """

    needs_gradient: ClassVar[bool] = True
    multiplies: ClassVar[bool] = True

    variant: Variant = "paper"
    """`paper`: as above. `code`: row-normalised rollout of the same maps, as in the public code of Ali 2022."""
    stream: bool = True
    """Use each layer's map during the backward pass and drop it: memory does not grow with depth."""

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

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        if not self.stream or self.variant != "paper" or model.attends_across:
            return super().explain(model, examples, targets)
        return self._streamed(model, examples, targets)

    def _streamed(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        """r ← r + r Ā from the last layer to the first: the order of the backward pass."""
        batch = model.collate(examples, targets)
        running: dict[str, Tensor] = {}
        levels: list[int] = []
        refused: list[str] = []

        def visit(made: AttentionMap, attention: Tensor, gradient: Tensor) -> None:
            if refused or attention.shape[-1] != attention.shape[-2]:
                refused.append("size")
                return
            if "r" not in running:
                running["r"] = torch.stack([self._start(batch, n, attention, gradient) for n in range(len(examples))])
            if running["r"].shape[-1] != attention.shape[-1]:
                refused.append("size")
                return
            if made.level not in levels:  # attentions side by side read the same r
                levels.append(made.level)
                running["above"] = running["r"]
            step = torch.einsum("bq,bqk->bk", running["above"], weighted(attention.float(), gradient.float()))
            running["r"] = running["r"] + step * (made.heads / made.heads_beside)  # the mean over the heads of all

        captured, _, names = self.collect(model, batch, targets, visitor=visit)
        self.check(model, batch, captured)
        if refused or "r" not in running:
            return super().explain(model, examples, targets)
        predictions = model.predictions(captured.outputs, batch)
        return [
            self.build(
                model,
                example,
                scores=to_features(example, self._own(batch, n, running["r"][n])),
                target=names[n],
                target_score=float(captured.target[n]),
                prediction=predictions[n],
            )
            for n, example in enumerate(examples)
        ]

    def _start(self, batch: ExampleBatch, n: int, attention: Tensor, gradient: Tensor) -> Tensor:
        """Row vectors that pick rows of R: 1 at the only one, 1/n at each of n."""
        own = self._places(batch, n, attention.shape[-1]).to(attention.device)
        layer = LayerMap(attention[n][:, own][:, :, own], gradient[n][:, own][:, :, own])
        rows, how = choose_rows(self.row, batch.rows[n], layer)
        start = torch.zeros(attention.shape[-1], device=attention.device, dtype=torch.float32)
        start[own[rows]] = 1 if how == "column_sum" else 1 / len(rows)
        return start

    def _own(self, batch: ExampleBatch, n: int, scores: Tensor) -> Tensor:
        return scores[self._places(batch, n, scores.shape[-1]).to(scores.device)]

    def _places(self, batch: ExampleBatch, n: int, size: int) -> Tensor:
        held = held_of(batch, n, batch.names[0], size)
        return torch.arange(size) if held is None else held


def _eye(size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=like.dtype, device=like.device)


def _normalised(matrix: Tensor) -> Tensor:
    """R̄ = rownorm(R - I) + I  [eq. 8, 9]."""
    eye = _eye(matrix.shape[0], matrix)
    rest = matrix - eye
    return rest / rest.sum(-1, keepdim=True).clamp_min(1e-12) + eye
