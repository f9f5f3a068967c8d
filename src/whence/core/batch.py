"""A batch: the inputs of one model call, which of them are explained, and where each example's own part lies.

Examples lie along the first axis of every explained input. That is said here, once; `layout` follows it from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

__all__ = ["Batch", "FeatureKind", "Places", "Source"]

FeatureKind = Literal["token", "patch", "pixel", "frame", "column"]
"""What the features of an input are."""

Places = range | Tensor
"""Where the elements of an example stand in a padded row: one after the other, or anywhere."""


@dataclass(frozen=True)
class Source:
    """An input that is explained."""

    name: str
    """The argument of the model."""
    kind: FeatureKind = "token"
    side: str = ""
    """Which part of the whole it is where there are several: "source" and "decoder", "first" and "second"."""
    mask: str | None = None
    """The argument that says which of its places are real, where the model takes one."""
    begins: bool = False
    """Whether it must begin where its row begins, so that padding stands behind it: what a decoder writes."""


@dataclass(frozen=True)
class Batch:
    """Examples side by side.

    >>> import torch
    >>> batch = Batch.of({"ids": torch.tensor([[5, 6, 0], [7, 8, 9]])}, "ids")
    >>> batch.examples
    2
    """

    inputs: dict[str, Any]
    """The arguments of the model. Those that are explained, and those that go with them, have examples first."""
    sources: tuple[Source, ...]
    places: Mapping[str, Sequence[Places]] = field(default_factory=dict)
    """Per source and example: its own places along the second axis, padding left out. Absent where all are."""
    looked_up: Mapping[str, Tensor] = field(default_factory=dict)
    """Ids whose embeddings the model is given in place of those of a source; whatever else it reads stays."""

    @classmethod
    def of(cls, inputs: Mapping[str, Any], *names: str) -> Batch:
        """A batch without padding of the inputs `names`."""
        return cls(dict(inputs), tuple(Source(name) for name in names))

    @property
    def examples(self) -> int:
        return int(self.inputs[self.sources[0].name].shape[0])

    @property
    def names(self) -> tuple[str, ...]:
        """Of the inputs that are explained."""
        return tuple(source.name for source in self.sources)

    def places_of(self, source: str, n: int) -> Tensor:
        """Where the elements of example `n` stand in the padded row of a source."""
        held = self.places.get(source)
        own = range(self.inputs[source].shape[1]) if held is None else held[n]
        return torch.arange(own.start, own.stop) if isinstance(own, range) else own

    def own(self, source: str, n: int, values: Tensor) -> Tensor:
        """What `values` (batch, place, …), laid out as a source is, holds for example `n`."""
        row = values[n]
        held = self.places.get(source)
        if held is None:
            return row
        own = held[n]
        return row[own.start : own.stop] if isinstance(own, range) else row[own.to(row.device)]

    def place(self, source: str, n: int, index: int) -> int:
        """Where element `index` of example `n` stands in the padded row."""
        held = self.places.get(source)
        return index if held is None else int(held[n][index])
