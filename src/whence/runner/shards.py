"""Parquet shards: one row per example, one row group per window, written whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from whence.extras import need_parquet
from whence.files import digest_of_file, publish
from whence.runner.window import Result

__all__ = ["ShardWriter", "leftovers", "schema", "table_of"]


def schema(scores: str) -> Any:
    """The columns of a shard.

    row              number of the row in the data          receipt_inputs  relevance of all inputs
    id, text         as in the data (images: the path)      receipt_sinks   relevance that ended elsewhere, by kind
    tokens, scores   one of each per feature                receipt_error   what is not accounted for
    word             which word each token belongs to       error           why the row has no scores
    shape            rows and columns of image patches
    """
    pa, _ = need_parquet()
    number = pa.float16() if scores == "float16" else pa.float32()
    sink = pa.struct([("kind", pa.string()), ("amount", pa.float64())])
    return pa.schema(
        [
            ("row", pa.int64()),
            ("id", pa.string()),
            ("text", pa.string()),
            ("tokens", pa.list_(pa.string())),
            ("scores", pa.list_(number)),
            ("word", pa.list_(pa.int32())),
            ("shape", pa.list_(pa.int32())),
            ("prediction", pa.string()),
            ("probability", pa.float32()),
            ("target", pa.string()),
            ("target_score", pa.float64()),
            ("receipt_inputs", pa.float64()),
            ("receipt_sinks", pa.list_(sink)),
            ("receipt_error", pa.float64()),
            ("error", pa.string()),
        ]
    )


class ShardWriter:
    """Writes one shard under a temporary name; `commit` gives it its own."""

    def __init__(self, final: Path, scores: str):
        _, parquet = need_parquet()
        self.final = final
        # A name of its own for every attempt: a worker given up for dead may still be writing to its file.
        self.temporary = final.with_name(f"_{final.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
        self._schema = schema(scores)
        self._file = self.temporary.open("wb")
        self._writer = parquet.ParquetWriter(self._file, self._schema, compression="zstd")

    def write(self, results: Sequence[Result]) -> None:
        """Append a window as a row group."""
        self._writer.write_table(table_of(results, self._schema))

    def commit(self) -> tuple[int, str]:
        """Sync and rename; the size of the file, and its digest."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        digest = digest_of_file(self.temporary)
        publish(self.temporary, self.final)
        return size, digest

    def discard(self) -> None:
        """Leave nothing behind. After a full disk, closing the writer fails too, and that is of no interest."""
        for close in (self._writer.close, self._file.close):
            try:
                close()
            except Exception:
                continue
        self.temporary.unlink(missing_ok=True)


def table_of(results: Sequence[Result], columns: Any) -> Any:
    """Results as a table with these columns."""
    pa, _ = need_parquet()
    made = [
        _column([getattr(r, name) for r in results], kind)
        for name, kind in zip(columns.names, columns.types, strict=True)
    ]
    return pa.Table.from_arrays(made, schema=columns)


def _column(values: list[Any], kind: Any) -> Any:
    """A column. Lists are handed over as one: value by value takes several times as long."""
    pa, _ = need_parquet()
    if not pa.types.is_list(kind) or pa.types.is_struct(kind.value_type):
        return pa.array(values, type=kind)
    sizes = np.array([0 if v is None else len(v) for v in values], dtype=np.int32)
    ends = np.cumsum(sizes, dtype=np.int32)
    missing = np.array([v is None for v in values] + [False])
    starts = pa.array(np.concatenate([[0], ends]).astype(np.int32), mask=missing)
    held = [v for v in values if v is not None]
    if held and isinstance(held[0], np.ndarray):
        flat = pa.array(np.concatenate(held), type=kind.value_type)
    else:
        flat = pa.array(list(chain.from_iterable(held)), type=kind.value_type)
    return pa.ListArray.from_arrays(starts, flat, type=kind)


def leftovers(out: Path) -> Iterator[Path]:
    """Temporary files of processes that died."""
    return out.glob("_*.part")
