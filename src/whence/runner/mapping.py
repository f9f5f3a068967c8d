"""A function on batches of rows, for those who have a cluster and a scheduler already: Ray Data, Spark, Dask."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whence.core.recipe import Recipe
from whence.data.frames import FrameDataset
from whence.data.rows import Columns, rows
from whence.errors import InputError
from whence.extras import need, need_parquet
from whence.methods.explaining import as_method
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.generating import Generate, checked_generate
from whence.models.loading import load
from whence.options import Count, check
from whence.runner.encoding import Encoder
from whence.runner.shards import schema, table_of
from whence.runner.window import WindowExplainer, check_kind

__all__ = ["BatchExplainer", "explainer"]

UNKNOWN = ("row",)
"""Columns of a run that a batch can't have: only who sees the whole data set can number its rows."""

_loaded: dict[str, AbstractAdapter] = {}
_lock = threading.Lock()


def explainer(
    model: Any,
    *,
    method: str | AbstractMethod | Recipe = "lrp",
    text: str = "text",
    text_pair: str | None = None,
    id_column: str | None = None,
    target: Any = None,
    target_column: str | None = None,
    keep: Sequence[str] = (),
    batch_tokens: int = 2048,
    scores: str = "float32",
    special_tokens: bool = True,
    truncate: bool = False,
    generate: Generate | None = None,
    model_options: dict[str, Any] | None = None,
    **options: Any,
) -> BatchExplainer:
    """A function from a batch of rows to their explanations, for `map_batches`, `mapInArrow` and `map_partitions`.

    It takes a table or record batch of pyarrow, a frame of pandas, columns in a dict, or an iterator of any of them,
    and gives the same kind back with the columns that `run` writes, but for `row`. It can be pickled; a model given by
    name is loaded once in each process that calls it.

    Arguments:
        keep: columns of the batch that stand before those of the explanation.
        batch_tokens: tokens of one pass of the model, padding included; a GPU wants more.

    The others are those of `run`. A row that can't be explained says why under `error`; a row that kills its process
    kills it: only `run` finds out which one it was.
    """
    check_kind(scores)
    check("batch_tokens", batch_tokens, Count, "explainer")
    written = checked_generate(generate)
    if isinstance(model, str | Path):
        model = str(model)
    elif model_options:
        raise InputError("model_options are for a model given by name, and this one is in memory: leave them out")
    return BatchExplainer(
        model=model if isinstance(model, str) else load(model),
        method=as_method(method, **options),
        columns=Columns(text, text_pair, id_column, target_column),
        target=target,
        keep=tuple(keep),
        batch_tokens=batch_tokens,
        scores=scores,
        special_tokens=special_tokens,
        encoding={"truncate": truncate, **({"generate": written} if written is not None else {})},
        model_options=model_options or {},
    )


@dataclass(frozen=True)
class BatchExplainer:
    """What `explainer` gives."""

    model: Any
    method: AbstractMethod
    columns: Columns
    target: Any = None
    keep: tuple[str, ...] = ()
    batch_tokens: int = 2048
    scores: str = "float32"
    special_tokens: bool = True
    encoding: dict[str, Any] = field(default_factory=dict)
    model_options: dict[str, Any] = field(default_factory=dict)

    @property
    def schema(self) -> Any:
        """The columns of the explanation, without those that are kept, as a schema of pyarrow."""
        pa, _ = need_parquet("explaining batches")
        return pa.schema([column for column in schema(self.scores) if column.name not in UNKNOWN])

    def schema_of(self, batch: Any) -> Any:
        """All columns that batches with this schema come back with."""
        pa, _ = need_parquet("explaining batches")
        return pa.schema([*(batch.field(name) for name in self.keep), *self.schema])

    def __call__(self, batch: Any) -> Any:
        """The explanations of a batch, in the form that it came in."""
        pa, _ = need_parquet("explaining batches")
        if isinstance(batch, Iterator):
            return map(self, batch)
        if isinstance(batch, pa.RecordBatch):
            made = self._table(pa.Table.from_batches([batch]))
            return pa.RecordBatch.from_arrays([c.combine_chunks() for c in made.columns], schema=made.schema)
        if isinstance(batch, pa.Table):
            return self._table(batch)
        if isinstance(batch, dict):
            made = self._table(pa.table({name: _arrow(pa, column) for name, column in batch.items()}))
            return {name: made[name].to_numpy(zero_copy_only=False) for name in made.column_names}
        if hasattr(batch, "iloc"):
            made = self._table(pa.Table.from_pandas(batch, preserve_index=False))
            frame = made.to_pandas()
            frame.index = batch.index
            return frame
        raise InputError(
            f"can't explain a {type(batch).__name__}: pass a table or record batch of pyarrow, a frame of pandas, "
            "columns in a dict, or an iterator of these"
        )

    def empty(self, batch: Any = None) -> Any:
        """A frame of pandas without rows that has the columns and types: what Dask calls `meta`.

        `batch` is a frame with the columns that are kept.
        """
        pandas = need("pandas", "", "meta for Dask")
        return self(pandas.DataFrame(columns=[*self.columns.named(), *self.keep]) if batch is None else batch.iloc[:0])

    def _table(self, batch: Any) -> Any:
        for name in (*self.columns.named(), *self.keep):
            if name not in batch.column_names:
                raise InputError(f"no column {name!r} in the batch. Its columns: {', '.join(batch.column_names)}")
        if clash := next((name for name in self.keep if name in self.schema.names), None):
            raise InputError(f"keep={clash!r} is also a column of the explanation: rename it first")
        results = self._explained(batch.select(list(dict.fromkeys(self.columns.named())))) if len(batch) else []
        made = table_of(results, self.schema)
        if self.columns.id is None:  # a number in the batch would be taken for one in the data
            pa, _ = need_parquet()
            made = made.set_column(0, self.schema.field("id"), pa.nulls(len(batch), pa.string()))
        for position, name in enumerate(self.keep):
            made = made.add_column(position, batch.schema.field(name), batch[name])
        return made

    def _explained(self, batch: Any) -> list[Any]:
        adapter = self._adapter()
        given = list(rows(FrameDataset(batch), self.columns))
        explain = WindowExplainer(
            adapter, self.method, self.target, self.batch_tokens, self.scores, self.special_tokens
        )
        return explain.window(given, Encoder(adapter, self.encoding)(given))

    def _adapter(self) -> AbstractAdapter:
        """The model; by name, loaded once in a process, whoever asks."""
        if isinstance(self.model, AbstractAdapter):
            return load(self.model)  # which looks whether it was changed
        key = repr((self.model, sorted(self.model_options.items())))
        with _lock:
            if key not in _loaded:
                _loaded[key] = load(self.model, **self.model_options)
            return _loaded[key]


def _arrow(pa: Any, column: Any) -> Any:
    return pa.array(column.tolist() if hasattr(column, "tolist") else column)
