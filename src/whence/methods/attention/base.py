"""What attention methods share: collect maps, cut padding away, choose a row, give scores back to features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from whence.core.capture import AttentionMap, Captured, Visitor, capture, capture_relevance
from whence.errors import InputError, ModelError
from whence.methods.base import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example
from whence.models.targets import AbstractTarget
from whence.results import Explanation

__all__ = ["AbstractAttentionMethod", "LayerMap", "Row", "Variant", "fuse", "pick_row", "residual", "row_normalised"]

Row = Literal["auto", "cls", "last", "mean", "column_sum"]
Variant = Literal["paper", "code"]
Fusion = Literal["mean", "max", "min"]
Residual = Literal["none", "add_identity", "add_identity_then_normalise"]


@dataclass(frozen=True)
class LayerMap:
    """One layer of one example, padding cut away."""

    attention: Tensor
    """(head, query, key)"""
    gradient: Tensor | None = None
    relevance: Tensor | None = None
    states: Tensor | None = None
    states_gradient: Tensor | None = None
    stream: str = "self"


@dataclass(frozen=True, kw_only=True)
class AbstractAttentionMethod(AbstractMethod):
    """A method that turns the maps of all layers into one score per token."""

    needs_gradient: ClassVar[bool] = False
    needs_relevance: ClassVar[bool] = False
    streams: ClassVar[tuple[str, ...]] = ("self",)
    """Which attention it can use: "self" for encoders and decoders; with "cross" encoder-decoders too."""

    row: Row = "auto"
    """Whose attention: `cls` (the first token), `last`, `mean` over all, `column_sum`; `auto` is where the model
    reads its prediction: the predicting token of causal models, the first token of encoders, the mean without one."""

    @abstractmethod
    def token_scores(self, layers: list[LayerMap], row: int | None, how: str) -> Tensor:
        """One score per token. `row` is the token that predicts (None: all of them, taken together as `how` says)."""

    def encoder_decoder_scores(self, layers: list[LayerMap], row: int) -> tuple[Tensor, Tensor]:
        """Scores of source tokens and of decoder tokens."""
        raise InputError(
            f"{self.name} is defined for one sequence, and this model attends across two. "
            "Use gae, grad_sam or attention_last"
        )

    # -- running ---------------------------------------------------------------------------------------------

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        captured, relevance, names = self.collect(model, examples, targets)
        check_maps(captured.maps, self.name)
        return [
            self.build(
                model,
                example,
                scores=self._scores(model, examples, n, captured, relevance),
                target=names[n],
                target_score=float(captured.target[n]),
                prediction=model.prediction(captured.outputs, examples, n),
            )
            for n, example in enumerate(examples)
        ]

    def collect(
        self,
        model: AbstractAdapter,
        examples: Sequence[Example],
        targets: Sequence[AbstractTarget],
        visitor: Visitor | None = None,
    ) -> tuple[Captured, list[Tensor] | None, list[str]]:
        """Maps (and gradients, and relevance) of a batch, and the names of its targets."""
        names: list[str] = []

        def forward(batch: dict[str, Any]) -> Any:
            outputs = model.forward(batch)
            model.check_finite(outputs)
            return outputs

        def target(outputs: Any) -> Tensor:
            scores, names[:] = model.score(outputs, examples, targets)
            return scores

        batch = model.collate(examples)
        captured = capture(
            forward,
            batch,
            sources=model.sources,
            target=target,
            gradients=self.needs_gradient or self.needs_relevance,
            visitor=visitor,
            encoder_decoder=is_encoder_decoder(model),
        )
        relevance = None
        if self.needs_relevance:
            relevance = capture_relevance(forward, batch, sources=model.sources, target=target)
        return captured, relevance, names

    def _scores(
        self,
        model: AbstractAdapter,
        examples: Sequence[Example],
        n: int,
        captured: Captured,
        relevance: list[Tensor] | None,
    ) -> np.ndarray:
        layers = cropped(model, examples, n, captured, relevance)
        if any(layer.stream == "cross" for layer in layers):
            return self._both_sides(model, examples, n, captured, layers)
        layers = one_size(layers, self.name)
        row, how = choose_row(self.row, examples[n], layers, model)
        scores = self.token_scores(layers, row, how)
        return to_features(model, examples[n], scores)

    def _both_sides(
        self, model: AbstractAdapter, examples: Sequence[Example], n: int, captured: Captured, layers: list[LayerMap]
    ) -> np.ndarray:
        example = examples[n]
        decoder_length = next(layer.attention.shape[-1] for layer in layers if layer.stream == "decoder")
        row = example.position if example.position is not None else decoder_length - 1
        source, decoder = self.encoder_decoder_scores(layers, row)
        if "decoder_input_ids" in example.inputs:
            return torch.cat([source, decoder]).cpu().numpy()
        # The decoder reads the same tokens (shifted): its share goes back to where each came from.
        places = captured.leaves[1].positions
        assert places is not None
        width = places.shape[1] if places.dim() > 1 else places.shape[0]
        own = places.reshape(-1, width)[n if places.dim() > 1 else 0] - n * captured.leaves[0].positions.shape[1]  # type: ignore[union-attr]
        total = source.clone()
        for place, score in zip(own.tolist(), decoder.tolist(), strict=False):
            if 0 <= place < total.shape[0]:
                total[place] += score
        return total.cpu().numpy()


def is_encoder_decoder(model: AbstractAdapter) -> bool:
    return bool(getattr(model.config, "is_encoder_decoder", False)) and "ids" in model.sources[0]


def check_maps(maps: list[AttentionMap], name: str) -> None:
    if not maps:
        raise ModelError(
            f"{name} needs attention, and this model computes none that is over all tokens (its layers mix them by "
            "convolution, recurrence, windows or chunks). Use a propagation method: method='lrp'"
        )


def cropped(
    model: AbstractAdapter, examples: Sequence[Example], n: int, captured: Captured, relevance: list[Tensor] | None
) -> list[LayerMap]:
    """The maps of example `n` without padding."""
    example, shift = examples[n], model.shift(examples, n)
    lengths = {
        name: example.inputs[name].shape[0] for name in ("input_ids", "decoder_input_ids") if name in example.inputs
    }

    def cut(m: AttentionMap) -> tuple[slice, slice]:
        decoder = lengths.get("decoder_input_ids", lengths.get("input_ids", 0))
        source = lengths.get("input_ids", 0)
        if not lengths or model.sources[0] not in lengths:
            return slice(None), slice(None)
        whole = {
            "self": (source, source),
            "encoder": (source, source),
            "decoder": (decoder, decoder),
            "cross": (decoder, source),
        }
        query, key = whole[m.stream]
        moved = (0 if m.stream in ("decoder", "cross") else shift, 0 if m.stream == "decoder" else shift)
        return slice(moved[0], moved[0] + query), slice(moved[1], moved[1] + key)

    layers = []
    for number, m in enumerate(captured.maps):
        assert m.probabilities is not None
        query, key = cut(m)
        pick = lambda t: None if t is None else t[n, :, query, key].float()
        tokens = lambda t: None if t is None else t[n, key].float()
        gradient = m.gradient if m.gradient is not None else torch.zeros_like(m.probabilities)
        layers.append(
            LayerMap(
                attention=pick(m.probabilities),  # type: ignore[arg-type]
                gradient=pick(gradient),
                relevance=pick(relevance[number]) if relevance is not None else None,
                states=tokens(m.states),
                states_gradient=tokens(m.states_gradient),
                stream=m.stream,
            )
        )
    return layers


def one_size(layers: list[LayerMap], name: str) -> list[LayerMap]:
    """Layers whose maps are over all tokens; an error when they shrink on the way (pooling, merging)."""
    sizes = {layer.attention.shape[-2:] for layer in layers}
    if len(sizes) > 1 or any(q != k for q, k in sizes):
        shown = ", ".join(f"{q}×{k}" for q, k in sorted(sizes))
        raise ModelError(
            f"{name} needs attention maps over the same tokens in every layer, and this model's change on the "
            f"way ({shown}). Use a propagation method: method='lrp'"
        )
    return layers


def choose_row(choice: Row, example: Example, layers: list[LayerMap], model: AbstractAdapter) -> tuple[int | None, str]:
    """The predicting token's index, or None and how to take all tokens together."""
    length = layers[0].attention.shape[-1]
    if choice in ("mean", "column_sum"):
        return None, choice
    if choice == "cls":
        return 0, choice
    if choice == "last":
        return length - 1, choice
    if example.position is not None:
        return example.position, "auto"
    if all(torch.triu(layer.attention.mean(0), 1).abs().max() == 0 for layer in layers) and length > 1:
        return length - 1, "auto"  # causal: only the last token has seen everything
    if "pixel_values" in example.inputs and length == _patches(model, example):
        return None, "mean"  # no token of its own to predict from: the model pools
    if "pixel_values" not in example.inputs and not example.special:
        return None, "mean"
    return (0, "auto") if "pixel_values" in example.inputs or any(example.special) else (None, "mean")


def _patches(model: AbstractAdapter, example: Example) -> int:
    rows, columns = model.grid(example.inputs["pixel_values"].shape[-2:])  # type: ignore[attr-defined]
    return rows * columns


def to_features(model: AbstractAdapter, example: Example, scores: Tensor) -> np.ndarray:
    """Token scores as features: images drop the tokens before their patches (class, distillation, registers)."""
    if "pixel_values" in example.inputs:
        rows, columns = model.grid(example.inputs["pixel_values"].shape[-2:])  # type: ignore[attr-defined]
        if scores.shape[0] < rows * columns:
            raise ModelError(
                f"the model attends over {scores.shape[0]} tokens but its image has {rows}×{columns} "
                "patches: they can't be matched"
            )
        return scores[scores.shape[0] - rows * columns :].reshape(rows, columns).cpu().numpy()
    expected = sum(example.inputs[name].shape[0] for name in model.sources if example.inputs[name].dim() >= 1)
    if scores.shape[0] != expected:
        raise ModelError(
            f"the model attends over {scores.shape[0]} tokens but its input has {expected}: they can't be matched. "
            "Use a propagation method: method='lrp'"
        )
    return scores.cpu().numpy()


# -- small formulas ------------------------------------------------------------------------------------------------


def fuse(heads: Tensor, how: Fusion) -> Tensor:
    """Heads to one map."""
    return heads.mean(0) if how == "mean" else heads.amax(0) if how == "max" else heads.amin(0)


def row_normalised(matrix: Tensor) -> Tensor:
    return matrix / matrix.sum(-1, keepdim=True).clamp_min(1e-12)


def residual(matrix: Tensor, how: Residual) -> Tensor:
    """Account for the skip connection: nothing, + I, or + I with rows that sum to one again."""
    if how == "none":
        return matrix
    added = matrix + torch.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
    return row_normalised(added) if how == "add_identity_then_normalise" else added


def pick_row(matrix: Tensor, row: int | None, how: str) -> Tensor:
    """One row, or all rows together."""
    if row is not None:
        return matrix[row]
    return matrix.sum(0) if how == "column_sum" else matrix.mean(0)
