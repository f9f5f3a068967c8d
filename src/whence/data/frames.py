"""Columns in memory: frames and series of pandas and polars, tables of pyarrow, data sets of `datasets`.

None of these libraries is imported: their objects are known by what they offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from whence.data.dataset import AbstractDataset, Record
from whence.errors import InputError

__all__ = ["Batches", "FrameDataset", "column", "is_frame", "is_series", "listed", "names_of", "settled", "values_of"]

AT_ONCE = 512
"""Rows of a frame that are turned into records together."""


def settled(data: Any) -> Any:
    """`data` in the form that is read here: a lazy frame computed, a data set giving plain values, batches as rows."""
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):  # polars; asking it for columns is a warning
        return data if hasattr(data, "to_dicts") else data.collect()
    if callable(getattr(data, "with_format", None)):  # `datasets`, which may have been told to give tensors or tables
        return data.with_format(None)
    is_scanned = hasattr(data, "to_batches") and not hasattr(data, "column_names")
    return Batches(data) if hasattr(data, "schema") and (is_scanned or hasattr(data, "read_next_batch")) else data


class Batches:
    """Rows of a reader of pyarrow, or of a data set that it scans, batch by batch. A reader gives them once."""

    def __init__(self, source: Any):
        self.source = source
        self.once = None if hasattr(source, "to_batches") else self._all(source)
        """The rows of a reader."""

    def _all(self, batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
        return (row for batch in batches for row in batch.to_pylist())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._all(self.source.to_batches()) if self.once is None else self.once


def is_frame(data: Any) -> bool:
    """Whether `data` has named columns: iterating a pandas frame gives the names, not the rows."""
    if isinstance(getattr(data, "column_names", None), dict):  # `datasets` keeps train and test in one object
        splits = list(data.column_names)
        raise InputError(f"a {type(data).__name__} of {', '.join(map(repr, splits))}: pass one, data[{splits[0]!r}]")
    return any(hasattr(data, name) for name in ("columns", "column_names")) and hasattr(data, "__getitem__")


def is_series(data: Any) -> bool:
    """Whether `data` is one column."""
    arrow = hasattr(data, "to_pylist") and not hasattr(data, "schema")
    return arrow or (hasattr(data, "to_frame") and hasattr(data, "to_list"))


def names_of(frame: Any) -> list[Any]:
    """Names of columns; numbers where a file came without a header."""
    names = getattr(frame, "column_names", None)
    if names is None and not hasattr(frame, "columns"):  # a stream of `datasets` that knows them from its rows alone
        return list(next(iter(frame), {}))
    return list(names) if isinstance(names, (list, tuple)) else list(frame.columns)


def values_of(data: Any, column: str | int | Sequence[str] | None = None, *, option: str = "text") -> list[Any]:
    """The values of a series, or of a frame's column (tuples for several columns). Missing values are None.

    >>> values_of({"review": ["a gem", "so dull"]}, "review")
    ['a gem', 'so dull']
    """
    if is_series(data):
        return [_plain(v) for v in listed(data)]
    known = list(data) if isinstance(data, dict) else names_of(data)
    if column is None:
        first = known[0] if known else "review"
        raise InputError(
            f"a {type(data).__name__} with the columns {', '.join(map(repr, known))}: say which one holds the inputs, "
            f"{option}={first!r}, or pass it alone, data[{first!r}]"
        )
    wanted = [column] if isinstance(column, (str, int)) else list(column)
    for name in wanted:
        if name not in known:
            raise InputError(
                f"no column {name!r}; there are {', '.join(map(repr, known))}. Say which one with {option}="
            )
    columns = [[_plain(v) for v in listed(data[name])] for name in wanted]
    return columns[0] if isinstance(column, (str, int)) else list(zip(*columns, strict=True))


def listed(column: Any) -> list[Any]:
    """The values of a column in their order, whatever its index says."""
    for name in ("to_list", "to_pylist", "tolist"):
        if hasattr(column, name):
            return list(getattr(column, name)())
    return list(column)


def _plain(value: Any) -> Any:
    """None for what frames call missing: NaN, NaT, NA."""
    try:
        return None if value is None or (not isinstance(value, (str, bytes)) and bool(value != value)) else value
    except (TypeError, ValueError):  # arrays, images; pandas.NA refuses to be compared
        return None if type(value).__name__ == "NAType" else value


def column(inputs: Any, text: str | int | Sequence[str] | None = None) -> Any:
    """The inputs that a user passed, out of a series, a frame or rows."""
    inputs = settled(inputs)
    if is_series(inputs) or is_frame(inputs):
        return values_of(inputs, text)
    if isinstance(inputs, Batches) or (text is not None and not isinstance(inputs, (str, Mapping))):
        rows = list(inputs) if isinstance(inputs, Iterable) else []
        if rows and all(isinstance(row, Mapping) for row in rows):
            return values_of({name: [row.get(name) for row in rows] for name in rows[0]}, text)
    if text is not None:
        raise InputError(f"text={text!r} names a column of a frame, and the input is {type(inputs).__name__}")
    return inputs


class FrameDataset(AbstractDataset):
    """A frame as records."""

    def __init__(self, frame: Any):
        self.frame, self.name = frame, f"a {type(frame).__name__}"

    def columns(self) -> list[str]:
        return [str(name) for name in names_of(self.frame)]

    def count(self) -> int | None:
        try:
            return len(self.frame)
        except TypeError:
            return None

    def fingerprint(self) -> dict[str, Any]:
        return {"name": self.name, "rows": self.count(), "columns": self.columns()}

    def records(self, start: int = 0) -> Iterator[Record]:
        count = self.count()
        if count is None or not (hasattr(self.frame, "iloc") or hasattr(self.frame, "slice")):
            yield from islice(iter(self.frame), start, None)  # `datasets` iterates over its rows
            return
        for first in range(start, count, AT_ONCE):
            part = self.frame.iloc[first : first + AT_ONCE] if hasattr(self.frame, "iloc") else None
            part = self.frame.slice(first, AT_ONCE) if part is None else part
            columns = {str(name): [_plain(v) for v in listed(part[name])] for name in names_of(self.frame)}
            for n in range(min(AT_ONCE, count - first)):
                yield {name: values[n] for name, values in columns.items()}
