"""Labelled inputs, encoded for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from whence.data.labelled import LabelledRow, labelled
from whence.errors import InputError, WhenceError
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example

__all__ = ["Case", "cases_of", "sampled", "texts"]


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

    @property
    def features(self) -> int:
        """How many scores an explanation of it has."""
        return self.example.count

    def __str__(self) -> str:
        if self.example.text is not None:
            return self.example.text
        return self.raw if isinstance(self.raw, str) else f"example {self.index}"


def cases_of(model: AbstractAdapter, data: Any, *, limit: int | None, seed: int, truncate: bool) -> list[Case]:
    """Encoded cases. With `limit`, that many drawn at random without replacement, in the order of the data."""
    rows = labelled(data, model.labels, sounds=model.kind == "sound")
    return [_case(model, n, rows[n], truncate) for n in sampled(len(rows), limit, seed)]


def sampled(count: int, limit: int | None, seed: int) -> list[int]:
    if limit is None or limit >= count:
        return list(range(count))
    if limit < 1:
        raise InputError(f"limit={limit}: at least one example is needed")
    chosen: list[int] = sorted(np.random.default_rng(seed).choice(count, size=limit, replace=False).tolist())
    return chosen


def _case(model: AbstractAdapter, index: int, row: LabelledRow, truncate: bool) -> Case:
    try:
        (example,), _ = model.encode(_batched(row.input), **({"truncate": True} if truncate else {}))
        label = None if row.label is None else model.class_of(row.label, example)
    except WhenceError as error:
        message = str(error).removeprefix("input 0: ")
        raise InputError(f"example {index}: {message}") from None
    mask = None if row.mask is None else np.asarray(row.mask).squeeze() > 0
    return Case(index, row.input, example, label, row.rationale, mask)


def _batched(raw: Any) -> Any:
    """Tensors get a batch axis: rows of a data set come without one."""
    if isinstance(raw, Mapping):
        if any(isinstance(v, (str, list, tuple)) for v in raw.values()):  # a picture with a question, labels
            return raw
        return {k: v[None] if isinstance(v, Tensor) else v for k, v in raw.items()}
    return raw[None] if isinstance(raw, Tensor) else [raw]


def texts(cases: Sequence[Case]) -> tuple[str, ...]:
    """What stands in the result for each case."""
    return tuple(str(case) for case in cases)
