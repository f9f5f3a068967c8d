"""What attention methods share: collect maps, cut padding away, choose a row, give scores back to features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor

from whence.core.capture import AttentionMap, Captured, Visitor, capture, capture_relevance
from whence.errors import InputError, ModelError, UnknownNameError
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example
from whence.models.targets import AbstractTarget
from whence.results import Explanation

__all__ = ["AbstractAttentionMethod", "LayerMap", "Row", "Variant", "fuse", "pick_rows", "residual", "row_normalised"]

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
    reads its prediction: the rows of the last map that the target depends on (the mean, if there are several). That
    is the predicting token of causal models, the first token of encoders that pool it, the labelled token of taggers,
    all tokens where the model averages them."""

    def __post_init__(self) -> None:
        """A misspelled option is an error, not the last of its alternatives."""
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is Literal and getattr(self, name) not in get_args(kind):
                raise UnknownNameError(name, getattr(self, name), get_args(kind))

    @abstractmethod
    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        """One score per token. `rows` are the tokens that predict, taken together as `how` says."""

    def encoder_decoder_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> tuple[Tensor, Tensor]:
        """Scores of source tokens and of decoder tokens; `rows` are decoder tokens."""
        raise InputError(
            f"{self.name} is defined for attention within one sequence, and this model attends across two. "
            "Use gae, grad_sam or attention_last"
        )

    # -- running ---------------------------------------------------------------------------------------------

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        captured, relevance, names = self.collect(model, examples, targets)
        check_maps(captured.maps, self.name)
        check_whole(captured, self.name)
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
        if self.needs_relevance and captured.maps:
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
        scores = self.token_scores(layers, *choose_rows(self.row, examples[n], layers[-1]))
        return to_features(model, examples[n], scores)

    def _both_sides(
        self, model: AbstractAdapter, examples: Sequence[Example], n: int, captured: Captured, layers: list[LayerMap]
    ) -> np.ndarray:
        example = examples[n]
        source, decoder = self.encoder_decoder_scores(layers, *choose_rows(self.row, example, layers[-1]))
        if "decoder_input_ids" in example.inputs:
            return torch.cat([source, decoder]).cpu().numpy()
        # The decoder reads the same tokens (shifted): its share goes back to where each came from.
        places = captured.leaves[1].positions
        assert places is not None
        width = places.shape[1] if places.dim() > 1 else places.shape[0]
        own = places.reshape(-1, width)[n if places.dim() > 1 else 0] - n * captured.leaves[0].positions.shape[1]  # type: ignore[union-attr]
        shift = model.shift(examples, n)
        total = source.clone()
        for place, score in zip((own[shift:] - shift).tolist(), decoder.tolist(), strict=False):
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


def check_whole(captured: Captured, name: str) -> None:
    if captured.in_parts:
        raise ModelError(
            f"{name} needs attention over all tokens in every layer, and {captured.in_parts} of this model's are over "
            "windows or chunks of them. Use a propagation method: method='lrp'"
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
        start = 0 if "decoder_input_ids" in lengths else shift  # a decoder that reads the source is padded as it is
        moved = (start if m.stream in ("decoder", "cross") else shift, start if m.stream == "decoder" else shift)
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


def choose_rows(choice: Row, example: Example, last: LayerMap) -> tuple[list[int], str]:
    """The tokens that predict, and how they are taken together."""
    length = last.attention.shape[-2]
    if choice != "auto":
        return {"cls": [0], "last": [length - 1]}.get(choice, list(range(length))), choice
    rows = _read(last)
    place = example.position
    if place is not None and place in rows:
        # Layers without attention may follow the last map and mix tokens; we know better where the model predicts.
        rows = [r for r in rows if place <= r < place + max(1, len(example.continuation))]
    return rows, "mean"


def _read(last: LayerMap) -> list[int]:
    """Rows of the last map that the target depends on."""
    assert last.gradient is not None
    return last.gradient.abs().sum((0, 2)).nonzero().flatten().tolist() or list(range(last.attention.shape[-2]))


def to_features(model: AbstractAdapter, example: Example, scores: Tensor) -> np.ndarray:
    """Token scores as features: images drop the tokens before their patches (class, distillation, registers)."""
    if "pixel_values" in example.inputs:
        rows, columns = model.grid(example.inputs["pixel_values"].shape[-2:])  # type: ignore[attr-defined]
        if scores.shape[0] < rows * columns:
            raise ModelError(
                f"the model's attention is over {scores.shape[0]} tokens but its image has {rows}×{columns} patches: "
                "they can't be matched. Use a propagation method: method='lrp'"
            )
        return scores[scores.shape[0] - rows * columns :].reshape(rows, columns).cpu().numpy()
    expected = sum(example.inputs[name].shape[0] for name in model.sources if example.inputs[name].dim() >= 1)
    if scores.shape[0] != expected:
        raise ModelError(
            f"the model's attention is over {scores.shape[0]} tokens but its input has {expected}: "
            "they can't be matched. Use a propagation method: method='lrp'"
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


def pick_rows(matrix: Tensor, rows: list[int], how: str) -> Tensor:
    """One row, or several together."""
    return matrix[rows].sum(0) if how == "column_sum" else matrix[rows].mean(0)
