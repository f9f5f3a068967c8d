"""Attention maps of one input."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import InputError
from whence.results.showing import draw, save_as

__all__ = ["AttentionMaps"]


@dataclass(frozen=True, eq=False)
class AttentionMaps:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "maps", tuple(m.view() for m in self.maps))
        for m in self.maps:
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

    def save(self, path: str | Path) -> Path:
        """Write to `path` by its suffix: .npz is exact, the others are for people."""
        return save_as(self, path, {".npz": self._npz})

    def _npz(self) -> bytes:
        names = ("streams", "tokens", "decoder_tokens", "text", "stamp")
        meta = json.dumps({n: getattr(self, n) for n in names}, ensure_ascii=False, default=str)
        arrays: Any = {f"layer{n}": m for n, m in enumerate(self.maps)} | {"meta": np.array(meta)}
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)
        return file.getvalue()

    @classmethod
    def load(cls, path: str | Path) -> AttentionMaps:
        with np.load(path, allow_pickle=False) as data:
            meta = json.loads(str(data["meta"]))
            maps = tuple(data[f"layer{n}"] for n in range(len(data.files) - 1))
        for name in ("streams", "tokens", "decoder_tokens"):
            meta[name] = tuple(meta[name])
        return cls(maps=maps, **meta)

    def _repr_html_(self) -> str:
        return str(draw(self, "notebook"))

    def __repr__(self) -> str:
        shapes = ", ".join(sorted({"×".join(map(str, m.shape)) for m in self.maps}))
        return f"<AttentionMaps of {len(self.tokens)} tokens: {len(self)} layers, heads×queries×keys {shapes}>"
