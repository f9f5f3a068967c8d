"""Activations on disk, found by content: the model's weights, the layer, the pooling and the input's tensors.

A file that can't be read counts as not there and is written anew.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from whence.errors import InputError
from whence.files import replaced
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example, bytes_of

__all__ = ["Cache", "fingerprint"]

UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


class Cache:
    """A folder with one file per input and layer."""

    def __init__(self, folder: str | Path, adapter: AbstractAdapter):
        self.folder = Path(folder).expanduser()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cache={str(folder)!r} can't be made: {error}. Pass a folder that can be written"
            ) from None
        self.model = fingerprint(adapter)
        self.hits = 0

    def get(self, example: Example, pool: str, layers: Sequence[str]) -> dict[str, np.ndarray] | None:
        """Activations at all of `layers`, or None when one is missing or can't be read."""
        found: dict[str, np.ndarray] = {}
        content = example.content()
        for layer in layers:
            value = _read(self._path(content, pool, layer))
            if value is None:
                return None
            found[layer] = value
        self.hits += 1
        return found

    def put(self, example: Example, pool: str, values: dict[str, np.ndarray]) -> None:
        content = example.content()
        for layer, value in values.items():
            _write(self._path(content, pool, layer), value)

    def _path(self, content: bytes, pool: str, layer: str) -> Path:
        key = _digest([self.model.encode(), layer.encode(), pool.encode(), content])
        return self.folder / key[:2] / f"{key}.npz"


def fingerprint(adapter: AbstractAdapter) -> str:
    """A hash of everything that decides the activations: class, configuration, revision and every weight."""
    module, config = adapter.module, adapter.config
    settings = config.to_json_string() if hasattr(config, "to_json_string") else ""
    parts = [type(module).__qualname__.encode(), settings.encode(), str(adapter.facts().get("revision")).encode()]
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        hasher.update(len(part).to_bytes(8) + part)
    for name, value in module.state_dict().items():
        if isinstance(value, Tensor):
            hasher.update(f"{name}{value.dtype}{tuple(value.shape)}".encode() + bytes_of(value))
    return hasher.hexdigest()


def _digest(parts: Sequence[bytes]) -> str:
    hasher = hashlib.blake2b(digest_size=20)
    for part in parts:
        hasher.update(len(part).to_bytes(8) + part)
    return hasher.hexdigest()


def _read(path: Path) -> np.ndarray | None:
    try:
        with np.load(path, allow_pickle=False) as file:  # the zip's checksum is verified as it is read
            value = file["activation"]
    except UNREADABLE:
        return None
    return value if value.dtype == np.float32 and value.ndim == 1 and np.isfinite(value).all() else None


def _write(path: Path, value: np.ndarray) -> None:
    path.parent.mkdir(exist_ok=True)
    with replaced(path) as temporary, temporary.open("wb") as file:
        np.savez(file, activation=value)
