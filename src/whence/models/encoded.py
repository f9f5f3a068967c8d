"""Inputs that were encoded elsewhere, by a tokenizer or a processor: tensors by name, one example after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError

__all__ = ["EncodedRow", "encoded_rows", "is_encoded"]


class EncodedRow(NamedTuple):
    """The tensors of one example, and what it has in common with the others."""

    inputs: dict[str, Tensor]
    shared: dict[str, Any]


def is_encoded(item: Any, main: str) -> bool:
    return isinstance(item, Mapping) and (main in item or any(isinstance(v, Tensor) for v in item.values()))


def encoded_rows(inputs: Mapping[str, Any], main: str, dims: int = 1) -> list[EncodedRow]:
    """The examples of a batch. `main` is the input that is explained, which has `dims` axes in one example."""
    given = {k: _as_tensor(k, v) for k, v in inputs.items()}
    first = given.get(main)
    if not isinstance(first, Tensor):
        raise InputError(f"encoded inputs must hold {main!r}; got {sorted(given)}")
    if first.dim() == dims:
        size = first.shape[0]
        alone = {k: v[None] for k, v in given.items() if isinstance(v, Tensor) and v.dim() and v.shape[0] == size}
        given = {**given, **alone}
        first = given[main]
    elif first.dim() != dims + 1:
        raise InputError(f"{main!r} has shape {tuple(first.shape)}: expected {dims} axes, or {dims + 1} with a batch")
    count = first.shape[0]
    rows = {k: v for k, v in given.items() if isinstance(v, Tensor) and v.dim() and v.shape[0] == count}
    shared = {k: v for k, v in given.items() if k not in rows}
    odd = next((k for k, v in shared.items() if isinstance(v, Tensor) and v.dim()), None)
    if odd is not None and count > 1:
        raise InputError(
            f"{odd!r} has {shared[odd].shape[0]} rows for {count} examples, so it can't be told which belong to which. "
            "Pass one example at a time"
        )
    each = zip(*(v.unbind() for v in rows.values()), strict=True)  # all at once: an index takes longer
    return [EncodedRow(dict(zip(rows, values, strict=True)), shared) for values in each]


def _as_tensor(name: str, value: Any) -> Any:
    if isinstance(value, Tensor) and not value.is_floating_point():
        return value.cpu()  # ids are read one by one, and each would be a wait for the device
    if not isinstance(value, (list, np.ndarray)):
        return value
    try:
        return torch.as_tensor(value)
    except (ValueError, TypeError, RuntimeError):
        raise InputError(
            f"the rows of {name!r} have different lengths: encode with padding=True, return_tensors='pt'"
        ) from None
