"""The plan of a run: every setting that decides what comes out, and how rows are cut into shards and windows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from whence.data.rows import Row
from whence.models.adapter import AbstractAdapter
from whence.stamp import versions

__all__ = ["Plan", "Shard", "cut", "difference", "digest_of", "stamp", "weights_digests"]


@dataclass(frozen=True)
class Plan:
    """How rows become batches. Part of the manifest: a resumed run takes it from there."""

    rows_per_shard: int
    """Rows in a file: what is lost at most when a process dies."""
    window: int
    """Rows that are sorted by length together. Batches never leave a window, windows never leave a shard."""
    batch_tokens: int
    """Tokens in a batch, padding included."""
    threads: int
    """Threads of torch: another number may add in another order."""
    scores: str = "float32"

    def windows(self, rows: list[Row]) -> list[list[Row]]:
        """The rows of a shard in windows."""
        return [rows[i : i + self.window] for i in range(0, len(rows), self.window)]


@dataclass(frozen=True)
class Shard:
    """A range of rows, and the file they go to."""

    number: int
    rows: list[Row]

    @property
    def file(self) -> str:
        return f"shard-{self.number:06d}.parquet"

    @property
    def start(self) -> int:
        return self.rows[0].number


def cut(rows: Iterable[Row], size: int, first: int = 0) -> Iterator[Shard]:
    """Consecutive shards of `size` rows; `first` is the number of the first."""
    iterator, number = iter(rows), first
    while part := list(islice(iterator, size)):
        yield Shard(number, part)
        number += 1


def digest_of(rows: Iterable[Row]) -> str:
    """A digest of ids, contents and targets: tells whether the same rows came again."""
    digest = hashlib.blake2b(digest_size=16)
    for row in rows:
        digest.update(json.dumps([row.id, row.shown, str(row.target), row.error]).encode())
        if row.shown is None:
            digest.update(_bytes_of(row.content))
    return digest.hexdigest()


def _bytes_of(content: Any) -> bytes:
    """Pixels, samples, and what a dict holds. Of an object that whence does not know, its type."""
    if isinstance(content, dict):
        return b"".join(str(key).encode("utf-8", "replace") + _bytes_of(value) for key, value in content.items())
    if isinstance(content, list | tuple):
        return b"".join(map(_bytes_of, content))
    if isinstance(content, torch.Tensor):
        content = content.detach().cpu().contiguous().view(torch.uint8).numpy() if content.dim() else content.item()
    if hasattr(content, "tobytes"):  # arrays and images
        return str(getattr(content, "shape", getattr(content, "size", ""))).encode() + bytes(content.tobytes())
    if isinstance(content, str | int | float | bytes | None):
        return repr(content).encode("utf-8", "replace")
    return type(content).__qualname__.encode()


def weights_digests(adapter: AbstractAdapter) -> dict[str, str]:
    """A digest of every parameter, all of it, under its name."""
    with ThreadPoolExecutor(4) as pool:  # hashing lets other threads run
        named = adapter.module.state_dict()
        return dict(zip(named, pool.map(_digest_of_tensor, named.values()), strict=True))


def _digest_of_tensor(value: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)
    if not isinstance(value, torch.Tensor):  # the state of a module of somebody's own
        return hashlib.blake2b(repr(value).encode(), digest_size=16).hexdigest()
    digest.update(f"{tuple(value.shape)} {value.dtype}".encode())
    if value.numel():
        digest.update(value.detach().reshape(-1).cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def stamp(adapter: AbstractAdapter, weights: dict[str, str]) -> dict[str, Any]:
    """What the run was done with: model, weights, versions, kind of device."""
    together = hashlib.blake2b(json.dumps(weights).encode(), digest_size=16).hexdigest()
    return {**adapter.facts(), "weights": together, "device": adapter.device.type, **versions()}


def difference(old: Any, new: Any, path: str = "") -> list[str]:
    """Lines that say what differs between two settings, by name."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted({*old, *new})
        return [line for k in keys for line in difference(old.get(k), new.get(k), f"{path}.{k}" if path else k)]
    return [] if old == new else [f"{path}: {_shown(old)} before, {_shown(new)} now"]


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
