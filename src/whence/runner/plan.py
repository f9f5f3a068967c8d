"""The plan of a run: every setting that decides what comes out, and how rows are cut into shards and windows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from whence.data.rows import Row
from whence.models.adapter import AbstractAdapter
from whence.stamp import versions

__all__ = ["Plan", "Shard", "cut", "difference", "digest_of", "stamp", "weights_digest"]


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
    """A digest of ids, texts and targets: tells whether the same rows came again."""
    digest = hashlib.blake2b(digest_size=16)
    for row in rows:
        digest.update(json.dumps([row.id, row.shown, str(row.target), row.error]).encode())
    return digest.hexdigest()


def weights_digest(adapter: AbstractAdapter) -> str:
    """A digest of names, shapes and a sample of every parameter: a model trained on has another."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in adapter.module.state_dict().items():
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        flat = value.detach().reshape(-1)
        step = max(1, flat.numel() // 4096)
        digest.update(flat[::step].cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def stamp(adapter: AbstractAdapter) -> dict[str, Any]:
    """What the run was done with: model, weights, versions, kind of device."""
    return {**adapter.facts(), "weights": weights_digest(adapter), "device": adapter.device.type, **versions()}


def difference(old: Any, new: Any, path: str = "") -> list[str]:
    """Lines that say what differs between two settings, by name."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted({*old, *new})
        return [line for k in keys for line in difference(old.get(k), new.get(k), f"{path}.{k}" if path else k)]
    return [] if old == new else [f"{path}: {_shown(old)} before, {_shown(new)} now"]


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
