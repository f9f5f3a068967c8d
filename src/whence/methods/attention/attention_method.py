"""What attention methods share: collect maps, cut padding away, choose a row, give scores back to features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from whence.core.capture import AttentionMap, Captured, capture, capture_relevance, mixes_elsewhere
from whence.core.memory import blocks_of
from whence.core.streaming import Streamed
from whence.errors import InputError, ModelError
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import Example, ExampleBatch
from whence.models.padding import shortened
from whence.models.targets import AbstractTarget
from whence.results import Explanation

__all__ = [
    "AbstractAttentionMethod",
    "Fusion",
    "LayerMap",
    "Residual",
    "Row",
    "Variant",
    "fuse",
    "held_of",
    "pick_rows",
    "residual",
    "row_normalised",
    "rows_of",
    "to_features",
]

ENOUGH = 32
"""Tokens that show how tokens meet."""
Row = Literal["auto", "cls", "last", "mean", "column_sum"]
Variant = Literal["paper", "code"]
Fusion = Literal["mean", "max", "min"]
Residual = Literal["none", "add_identity", "add_identity_then_normalise"]


@dataclass(frozen=True)
class LayerMap:
    """One layer of one example, padding cut away. Attentions side by side are heads of one layer."""

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
    multiplies: ClassVar[bool] = False
    """Whether it follows tokens from layer to layer, so that attention must be the only way in which they meet."""

    row: Row = "auto"
    """Whose attention: `cls` (the first token), `last`, `mean` over all, `column_sum`; `auto` is where the model
    reads its prediction: the rows of the last map that the target depends on (the mean, if there are several). That
    is the predicting token of causal models, the first token of encoders that pool it, the labelled token of taggers,
    all tokens where the model averages them."""

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
        refuse_apart(model, self.name)
        batch = model.collate(examples, targets)
        captured, relevance, names = self.collect(model, batch, targets)
        self.check(model, batch, captured)
        predictions = model.predictions(captured.outputs, batch)
        return [
            self.build(
                model,
                example,
                scores=self._scores(model, batch, n, captured, relevance),
                target=names[n],
                target_score=float(captured.target[n]),
                prediction=predictions[n],
            )
            for n, example in enumerate(examples)
        ]

    def collect(
        self,
        model: AbstractAdapter,
        batch: ExampleBatch,
        targets: Sequence[AbstractTarget],
    ) -> tuple[Captured, list[Tensor] | None, list[str]]:
        """Maps (and gradients, and relevance) of a batch, and the names of its targets."""
        scores = TargetScores(model, batch, targets)
        layers = len(blocks_of(model.module))
        captured = capture(
            model.forward,
            batch,
            target=scores,
            gradients=self.needs_gradient or self.needs_relevance,
            wide=self.needs_relevance,
            layers=layers,
        )
        relevance = None
        if self.needs_relevance and captured.maps:
            relevance = capture_relevance(model.forward, batch, target=scores, layers=layers)
        return captured, relevance, scores.names

    def check(self, model: AbstractAdapter, batch: ExampleBatch, captured: Captured | Streamed) -> None:
        """Refuse a model that this method has no definition for."""
        check_maps(captured.maps, self.name)
        if captured.in_parts:
            raise ModelError(
                f"{self.name} needs attention over all tokens in every layer, and {captured.in_parts} of this model's "
                "are over windows or chunks of them. Use a propagation method: method='lrp'"
            )
        if model.kind != "text" and any(m.stream == "cross" for m in captured.maps):
            raise ModelError(
                f"{self.name} needs attention among the patches, and in this model others look at them: its queries "
                "attend to what a network made of the picture. Use a propagation method: method='lrp'"
            )
        mixes = lambda: mixes_elsewhere(model.forward, _short(model, batch))
        if self.multiplies and model.once("mixes_elsewhere", mixes):
            raise ModelError(
                f"{self.name} needs attention to be the only way in which tokens meet, and in this model they also "
                "meet elsewhere (convolution, recurrence, a state). Use a propagation method: method='lrp'"
            )

    def _scores(
        self, model: AbstractAdapter, batch: ExampleBatch, n: int, captured: Captured, relevance: list[Tensor] | None
    ) -> np.ndarray:
        layers = layers_of(batch, n, captured, relevance)
        example = batch.rows[n]
        if any(layer.stream == "cross" for layer in layers):
            return self._both_sides(batch, n, captured, layers)
        layers = one_size(layers, self.name)
        scores = self.token_scores(layers, *choose_rows(self.row, example, layers[-1]))
        return to_features(model, example, scores)

    def _both_sides(self, batch: ExampleBatch, n: int, captured: Captured, layers: list[LayerMap]) -> np.ndarray:
        example = batch.rows[n]
        source, decoder = self.encoder_decoder_scores(layers, *choose_rows(self.row, example, layers[-1]))
        if len(example.parts) > 1:
            both: np.ndarray = torch.cat([source, decoder]).cpu().numpy()
            return both
        # The decoder reads the same tokens (shifted): its share goes back to where each came from.
        name = batch.names[0]
        places = captured.leaves[-1].positions
        assert places is not None
        width = batch.inputs[name].shape[1]
        own = places.reshape(batch.examples, -1)[n] - n * width
        total = torch.zeros(width, device=source.device, dtype=source.dtype)
        inside = batch.places_of(name, n)
        total[inside.to(total.device)] = source
        for place, score in zip(own[inside.to(own.device)].tolist(), decoder.tolist(), strict=False):
            if 0 <= place < width:
                total[place] += score
        scores: np.ndarray = total[inside.to(total.device)].cpu().numpy()
        return scores


def refuse_apart(model: AbstractAdapter, method: str) -> None:
    """An error for models whose attention is never over all features."""
    if model.reads_apart:
        raise ModelError(
            f"{method} reads attention over one sequence, and this model reads {model.reads_apart}. "
            "Use a propagation method: method='lrp'"
        )


def _short(model: AbstractAdapter, batch: ExampleBatch) -> ExampleBatch:
    """The beginning of a long input: how tokens meet shows there, and its maps are small."""
    example = batch.rows[0]
    shorter = shortened(example, ENOUGH) if not example.looked_up else None
    return batch if shorter is None else model.collate([shorter])


def check_maps(maps: Sequence[AttentionMap], name: str) -> None:
    if not maps:
        raise ModelError(
            f"{name} needs attention, and this model computes none that is over all tokens (its layers mix them by "
            "convolution, recurrence, windows or chunks). Use a propagation method: method='lrp'"
        )


def cropped(
    batch: ExampleBatch, n: int, captured: Captured, relevance: Sequence[Tensor] | None = None
) -> list[LayerMap]:
    """The maps of example `n` without padding, one for each attention."""
    layers = []
    for number, m in enumerate(captured.maps):
        assert m.probabilities is not None
        query, key = _own_tokens(batch, n, m)
        pick = partial(_picked, n=n, query=query, key=key)
        tokens = partial(_picked_states, n=n, key=key)
        gradient = m.gradient if m.gradient is not None else torch.zeros_like(m.probabilities)
        attention = pick(m.probabilities)
        assert attention is not None
        layers.append(
            LayerMap(
                attention=attention,
                gradient=pick(gradient),
                relevance=pick(relevance[number]) if relevance is not None else None,
                states=tokens(m.states),
                states_gradient=tokens(m.states_gradient),
                stream=m.stream,
            )
        )
    return layers


def _picked(maps: Tensor | None, n: int, query: Tensor | None, key: Tensor | None) -> Tensor | None:
    """Map `n` of these maps, of these queries and keys."""
    if maps is None:
        return None
    heads = maps[n] if query is None else maps[n][:, query.to(maps.device)]
    return (heads if key is None else heads[:, :, key.to(heads.device)]).float()


def _picked_states(states: Tensor | None, n: int, key: Tensor | None) -> Tensor | None:
    return None if states is None else (states[n] if key is None else states[n][key.to(states.device)]).float()


def _own_tokens(batch: ExampleBatch, n: int, m: AttentionMap) -> tuple[Tensor | None, Tensor | None]:
    """Which queries and keys of a map are the example's own; None for all. Maps over other things are left whole."""
    source, decoder = batch.names[0], batch.names[-1]
    query = decoder if m.stream in ("decoder", "cross") else source
    key = decoder if m.stream == "decoder" else source
    assert m.probabilities is not None
    sizes = m.probabilities.shape[-2:]
    return held_of(batch, n, query, sizes[0]), held_of(batch, n, key, sizes[1])


def held_of(batch: ExampleBatch, n: int, name: str, size: int) -> Tensor | None:
    """Where example `n` stands in a map that is as long as a source is; None where it has all of it."""
    same = name in batch.places and batch.inputs[name].shape[1] == size
    return batch.places_of(name, n) if same else None


def layers_of(batch: ExampleBatch, n: int, captured: Captured, relevance: Sequence[Tensor] | None) -> list[LayerMap]:
    """The layers of example `n`: attentions that stand side by side are one, with the heads of all."""
    groups: dict[tuple[str, int], list[LayerMap]] = {}
    for m, layer in zip(captured.maps, cropped(batch, n, captured, relevance), strict=True):
        groups.setdefault((m.stream, m.level), []).append(layer)
    return [_side_by_side(group) for group in groups.values()]


def _side_by_side(group: list[LayerMap]) -> LayerMap:
    first = group[0]
    if len(group) == 1 or len({layer.attention.shape[-2:] for layer in group}) > 1:
        return first

    def joined(name: str) -> Tensor | None:
        return None if getattr(first, name) is None else torch.cat([getattr(layer, name) for layer in group])

    return LayerMap(
        torch.cat([layer.attention for layer in group]),
        joined("gradient"),
        joined("relevance"),
        first.states,
        first.states_gradient,
        first.stream,
    )


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
    assert last.gradient is not None
    read: list[int] = last.gradient.abs().sum((0, 2)).nonzero().flatten().tolist()
    return rows_of(choice, example, last.attention.shape[-2], read)


def rows_of(choice: Row, example: Example, length: int, read: list[int]) -> tuple[list[int], str]:
    """The same from the rows of the last map that the target depends on."""
    if choice != "auto":
        return {"cls": [0], "last": [length - 1]}.get(choice, list(range(length))), choice
    rows = read or list(range(length))
    known = [r for r in rows if r in example.rows]
    # Layers without attention may follow the last map and mix tokens; we know better where the model predicts.
    return known or rows, "mean"


def to_features(model: AbstractAdapter, example: Example, scores: Tensor) -> np.ndarray:
    """Token scores as features: images drop the tokens that are no patches (class, distillation, registers)."""
    part = example.parts[0]
    own = model.features_among(example, scores.shape[0])
    if own is None:
        what = "input has {}×{} pieces".format(*part.shape) if len(part.shape) == 2 else f"input has {example.count}"
        raise ModelError(
            f"the model's attention is over {scores.shape[0]} tokens but its {what}: "
            "they can't be matched. Use a propagation method: method='lrp'"
        )
    kept: np.ndarray = scores[own].cpu().numpy()
    return kept


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
