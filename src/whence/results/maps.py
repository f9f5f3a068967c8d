"""Attention maps of one input."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import InputError
from whence.results.inside import Inside
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, packed

__all__ = ["AttentionMaps"]


@dataclass(frozen=True, eq=False)
class AttentionMaps(Drawn):
    """What every layer and head attended to.

    `maps[layer]` has shape (head, query, key); in encoder-decoders layers differ in size, and `streams` says which are
    "encoder", "decoder" and "cross".
    """

    maps: tuple[np.ndarray, ...]
    streams: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    """The tokens of the input; in encoder-decoders of the source."""
    decoder_tokens: tuple[str, ...] = ()
    text: str | None = None
    stamp: dict[str, Any] = field(default_factory=dict)
    in_parts: int = 0
    """How many attentions were over windows or chunks of the input: these are not among the maps."""
    relevance: tuple[np.ndarray, ...] = ()
    """Of every layer, the relevance of its heads, where it was asked for: the page can sort heads by it."""

    def __post_init__(self) -> None:
        for name in ("maps", "relevance"):
            held = tuple(np.asarray(m).view() for m in getattr(self, name))
            object.__setattr__(self, name, held)
            for m in held:
                m.setflags(write=False)

    def __len__(self) -> int:
        return len(self.maps)

    def __getitem__(self, layer: int) -> np.ndarray:
        return self.maps[layer]

    @property
    def array(self) -> np.ndarray:
        """All layers as one array (layer, head, query, key), where they have one size."""
        if len({m.shape for m in self.maps}) > 1:
            raise InputError("the layers differ in size; use maps[layer]")
        return np.stack(self.maps)

    def axes(self, layer: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tokens of the queries and of the keys of a layer."""
        stream = self.streams[layer] if self.streams else "self"
        query = self.decoder_tokens if stream in ("decoder", "cross") else self.tokens
        key = self.decoder_tokens if stream == "decoder" else self.tokens
        return query, key

    def with_relevance(self, inside: Inside) -> AttentionMaps:
        """The same with the relevance of the heads, from `whence.explain(…, at="heads")` of the same input."""
        found = tuple(np.asarray(row) for row in inside["heads"])
        if [row.shape for row in found] != [m.shape[:1] for m in self.maps]:
            raise InputError(
                f"these maps have {[len(m) for m in self.maps]} heads a layer and the relevance is of "
                f"{[len(row) for row in found]}: explain the same input of the same model"
            )
        return replace(self, relevance=found)

    @property
    def entropy(self) -> tuple[np.ndarray, ...]:
        """Of every layer, the mean entropy of the rows of each head, in nats: low where a head looks at few tokens."""
        weights = (np.asarray(m, dtype=np.float64).clip(min=1e-30) for m in self.maps)
        return tuple(-(w * np.log(w)).sum(-1).mean(-1) for w in weights)

    def _writers(self) -> Writers:
        return {".npz": self._npz}

    def _npz(self) -> bytes:
        names = ("streams", "tokens", "decoder_tokens", "text", "stamp", "in_parts")
        arrays = {f"layer{n}": m for n, m in enumerate(self.maps)}
        arrays |= {f"relevance{n}": row for n, row in enumerate(self.relevance)}
        return packed({n: getattr(self, n) for n in names}, arrays)

    @classmethod
    def load(cls, path: str | Path) -> AttentionMaps:
        """Read what `save` wrote as .npz."""
        with opened(path, "whence.results.AttentionMaps", ".npz") as (meta, arrays):
            maps, relevance = (_numbered(arrays, name) for name in ("layer", "relevance"))
            if not maps:
                raise InputError(f"{Path(path).name!r} holds no attention")
            for name in ("streams", "tokens", "decoder_tokens"):
                meta[name] = tuple(meta[name])
            return cls(maps=maps, relevance=relevance, **meta)

    def __repr__(self) -> str:
        shapes = ", ".join(sorted({"×".join(map(str, m.shape)) for m in self.maps}))
        lacking = f"; {self.in_parts} over windows or chunks are not among them" if self.in_parts else ""
        return f"<AttentionMaps of {len(self.tokens)} tokens: {len(self)} layers, heads×queries×keys {shapes}{lacking}>"


def _numbered(arrays: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, ...]:
    """name0, name1, … of a file."""
    count = sum(key.startswith(name) for key in arrays)
    return tuple(arrays[f"{name}{n}"] for n in range(count))
