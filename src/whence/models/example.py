"""One encoded input: tensors for the model, and what its features are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.batch import Batch, Source

__all__ = ["Example", "ExampleBatch", "Features", "bytes_of"]

PATCH = 256
"""Pixels that cost about as much as a token."""


@dataclass(frozen=True)
class Features:
    """The features of one source of one example: how many there are and what they are called."""

    source: Source
    shape: tuple[int, ...]
    """Of their scores."""
    names: tuple[str, ...] = ()
    """As they read: the tokens of a text. Empty where a number says it all."""
    offsets: tuple[tuple[int, int], ...] = ()
    word_ids: tuple[int | None, ...] = ()
    special: tuple[bool, ...] = ()
    sides: tuple[str, ...] = ()
    seconds: float = 0.0
    """How long each of them is, of a sound."""
    places: tuple[int, ...] | None = None
    """Which places of the input they are, where the input came with others that its mask leaves out."""

    @property
    def count(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Example:
    """Tensors for the model (without a batch axis) and what is needed to show the result."""

    inputs: dict[str, Tensor]
    parts: tuple[Features, ...]
    shared: Mapping[str, Any] = field(default_factory=dict)
    """Arguments without a batch axis. Examples that share a batch share these: the same object."""
    text: str | None = None
    image: np.ndarray | None = None
    rows: tuple[int, ...] = ()
    """Tokens at which a language model predicts: the last one, those before each written token, the masked ones."""
    written: tuple[int, ...] = ()
    """The ids that it is asked about, one for each of `rows`; empty where it is asked what comes."""
    labels: tuple[str, ...] = ()
    """What its classes are called, where every example has its own: texts to choose from."""
    looked_up: dict[str, Tensor] = field(default_factory=dict)
    """Ids whose embeddings the model is given in place of those of its input, which stays as it is."""

    @cached_property
    def count(self) -> int:
        """How many features there are, all sources together."""
        return sum(part.count for part in self.parts)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The names of all features; empty where a source has none."""
        return _joined([part.names for part in self.parts])

    @cached_property
    def marks(self) -> tuple[bool, ...]:
        """Which features are special tokens."""
        return _joined([part.special or (False,) * part.count for part in self.parts])

    @cached_property
    def special(self) -> np.ndarray:
        """The same as an array."""
        return np.array(self.marks, dtype=bool)

    @cached_property
    def cost(self) -> int:
        """What the example costs: its tokens, or as many as its pixels are worth."""
        return max(1, *(_cost(self.inputs[part.source.name]) for part in self.parts))

    @cached_property
    def shape_key(self) -> tuple[Any, ...]:
        """Examples with the same can be stacked as they are."""
        return tuple((name, value.shape) for name, value in self.inputs.items())

    def content(self) -> bytes:
        """What decides what the model says of it, as bytes."""
        held = [*sorted(self.inputs.items()), *sorted(self.looked_up.items())]
        return b"".join(f"{name}{value.dtype}{tuple(value.shape)}".encode() + bytes_of(value) for name, value in held)

    def slices(self) -> list[slice]:
        """Where each part's features lie in a flat array of all of them."""
        ends = np.cumsum([part.count for part in self.parts]).tolist()
        return [slice(end - part.count, end) for part, end in zip(self.parts, ends, strict=True)]


def bytes_of(value: Tensor) -> bytes:
    """The values of a tensor of any type; numpy has no bfloat16."""
    raw = value.detach().cpu().contiguous()
    return raw.reshape(-1).view(torch.uint8).numpy().tobytes() if raw.numel() else b""


def _joined(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    if len(parts) == 1:
        return parts[0]
    return tuple(item for part in parts for item in part) if all(parts) else ()


def _cost(value: Tensor) -> int:
    if value.dim() >= 3:
        return value.shape[:-3].numel() * value.shape[-2:].numel() // PATCH
    return int(value.shape[0]) if value.dim() == 2 or (value.dim() and not value.is_floating_point()) else 1


@dataclass(frozen=True)
class ExampleBatch(Batch):
    """A batch that knows the examples it was made of."""

    rows: tuple[Example, ...] = ()
    kept: tuple[int, ...] | None = None
    """The places of the padded rows that the model gives outputs for; None where it does for all."""

    @cached_property
    def kept_at(self) -> dict[int, int]:
        """Which of the outputs is that of a place."""
        return {place: n for n, place in enumerate(self.kept or ())}

    def features(self, n: int, relevance: Mapping[str, Tensor]) -> list[Tensor]:
        """What `relevance` (per source, laid out as the batch) holds for each part of example `n`, padding cut away."""
        return [self.own(part.source.name, n, relevance[part.source.name]) for part in self.rows[n].parts]
