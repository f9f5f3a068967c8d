"""Labelled inputs, from whatever the user has them in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from whence.errors import EmptyInputError, InputError
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example

__all__ = ["Case", "cases_of", "sampled"]

INPUTS = ("text", "sentence", "image", "img", "input", "inputs")
LABELS = ("label", "labels", "target", "class")


@dataclass(frozen=True, eq=False)
class Case:
    """One input of a data set, encoded, with what people know about it."""

    index: int
    raw: Any
    """The input as the user gave it."""
    example: Example
    label: int | None = None
    rationale: Any = None
    mask: np.ndarray | None = None
    features: int = 0
    """How many scores an explanation of it has."""

    def __str__(self) -> str:
        if self.example.text is not None:
            return self.example.text
        return self.raw if isinstance(self.raw, str) else f"example {self.index}"


def cases_of(model: AbstractAdapter, data: Any, *, limit: int | None, seed: int, truncate: bool) -> list[Case]:
    """Encoded cases. With `limit`, that many drawn at random without replacement, in the order of the data."""
    rows = list(_rows(data, model))
    if not rows:
        raise EmptyInputError("the data set is empty")
    return [_case(model, n, rows[n], truncate) for n in sampled(len(rows), limit, seed)]


def sampled(count: int, limit: int | None, seed: int) -> list[int]:
    if limit is None or limit >= count:
        return list(range(count))
    if limit < 1:
        raise InputError(f"limit={limit}: at least one example is needed")
    return sorted(np.random.default_rng(seed).choice(count, size=limit, replace=False).tolist())


def _rows(data: Any, model: AbstractAdapter) -> Iterator[dict[str, Any]]:
    """Each row as a dict with "input" and, where known, "label", "rationale", "mask"."""
    if isinstance(data, Path):
        from whence.evaluation.reading import read

        data = read(data)
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a pandas frame
        data = data.to_dict("records")
    if isinstance(data, Mapping):
        data = _transposed(data)
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise InputError(
            f"can't read a data set from {type(data).__name__} {str(data)[:60]!r}: pass a list of texts, of pairs "
            "(text, label), of dicts with 'text' and 'label', or a pathlib.Path of a .tsv, .csv or .jsonl file"
        )
    return (_row(item, model) for item in data)


def _transposed(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lengths = {len(v) for v in columns.values()}
    if len(lengths) != 1:
        raise InputError(f"columns of different length: { {k: len(v) for k, v in columns.items()} }")
    return [{k: v[n] for k, v in columns.items()} for n in range(lengths.pop())]


def _row(item: Any, model: AbstractAdapter) -> dict[str, Any]:
    if isinstance(item, Mapping):
        return _from_dict(item)
    if isinstance(item, tuple) and 2 <= len(item) <= 3 and _is_label(item[1], model):
        return dict(zip(("input", "label", "mask"), item, strict=False))
    return {"input": item}


def _from_dict(item: Mapping[str, Any]) -> dict[str, Any]:
    label = next((item[k] for k in LABELS if k in item), None)
    extra = {k: item.get(k) for k in ("rationale", "mask")}
    named = next((item[k] for k in INPUTS if k in item), None)
    if named is not None:
        return {"input": named, "label": label, **extra}
    tensors = {k: v for k, v in item.items() if isinstance(v, Tensor) and k not in (*LABELS, *extra)}
    if not tensors:
        raise InputError(f"a row with {sorted(item)} has no input: name a column 'text' or 'image'")
    return {"input": tensors, "label": label, **extra}


def _is_label(value: Any, model: AbstractAdapter) -> bool:
    if isinstance(value, (int, np.integer)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim == 0):
        return True
    return isinstance(value, str) and _known(value, model)


def _known(label: str, model: AbstractAdapter) -> bool:
    return label.lower() in {known.lower() for known in model.labels}


def _case(model: AbstractAdapter, index: int, row: Mapping[str, Any], truncate: bool) -> Case:
    raw = row["input"]
    try:
        (example,), _ = model.encode(_batched(raw), **({"truncate": True} if truncate else {}))
        label = _index(row.get("label"), model)
    except InputError as error:
        raise type(error)(f"example {index}: {error}") from None
    mask = row.get("mask")
    return Case(
        index=index,
        raw=raw,
        example=example,
        label=label,
        rationale=row.get("rationale"),
        mask=None if mask is None else np.asarray(mask).squeeze() > 0,
        features=_features(model, example),
    )


def _batched(raw: Any) -> Any:
    """Tensors get a batch axis: rows of a data set come without one."""
    if isinstance(raw, Mapping):
        return {k: v[None] if isinstance(v, Tensor) else v for k, v in raw.items()}
    return raw[None] if isinstance(raw, Tensor) else [raw]


def _index(label: Any, model: AbstractAdapter) -> int | None:
    if label is None:
        return None
    if isinstance(label, str):
        return int(label) if label.lstrip("-").isdigit() and not _known(label, model) else model.find(label)
    return int(label)


def _features(model: AbstractAdapter, example: Example) -> int:
    if example.tokens:
        return len(example.tokens)
    grid = getattr(model, "grid", None)
    value = example.inputs[model.sources[0]]
    if grid is not None:
        rows, columns = grid(value.shape[-2:])
        return rows * columns
    return int(value.shape[0])


def texts(cases: Sequence[Case]) -> tuple[str, ...]:
    """What stands in the result for each case."""
    return tuple(str(case) for case in cases)
