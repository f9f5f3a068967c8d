"""What a model says itself of an input that it can't take.

Sizes, ids and dtypes that fit no layer show only when the model runs, and then as an error of torch somewhere inside.
Whether the input is at fault or whence is, the model tells: it runs once more as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from whence.errors import InputError, WhenceError
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example

__all__ = ["in_words", "refused"]

NO_INPUT = (WhenceError, MemoryError, torch.OutOfMemoryError, torch.AcceleratorError)
"""Errors that say enough, or are none of the input's; after one of the device nothing would run."""


def refused(model: AbstractAdapter, example: Example, error: Exception) -> Exception:
    """The error that came up while an example was explained; in words, where the model as it is can't take it."""
    if isinstance(error, NO_INPUT):
        return error
    try:
        with torch.no_grad():
            model.run(model.collate([example]))
    except NO_INPUT:
        return error
    except Exception as own:
        said = (str(own).strip().splitlines() or [""])[0][:300].rstrip(".")
        if isinstance(own, IndexError):
            said += " (an id beyond the table that it is looked up in)"
        given = ", ".join(f"{name!r} {_shape(value)}" for name, value in example.inputs.items())
        made = InputError(
            f"{type(model.module).__name__} can't take this input: {type(own).__name__}: {said}. "
            f"It was given one example (without the batch) of {given}"
        )
        made.__cause__ = own
        return made
    return error


@contextmanager
def in_words(model: AbstractAdapter, example: Example) -> Iterator[None]:
    """Around whatever is asked of a model about one example: `refused` in place of an error of torch."""
    try:
        yield
    except Exception as error:
        said = refused(model, example, error)
        if said is error:
            raise
        raise said from error


def _shape(value: Tensor) -> str:
    """Shape and type; of whole numbers also their range, for ids may be beyond what the model knows."""
    kind = f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if value.is_floating_point() or value.dtype == torch.bool or not value.numel():
        return kind
    return f"{kind} from {int(value.min())} to {int(value.max())}"
