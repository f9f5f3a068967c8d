"""One vector per example from the activations of a layer, and the gradient that belongs to it."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from whence.errors import InputError, UnknownNameError

__all__ = ["Pool", "check_pool", "pooled", "pooled_gradient"]

Pool = Literal["cls", "last", "mean", "flatten"]


def check_pool(pool: str) -> None:
    if pool not in get_args(Pool):
        raise UnknownNameError("pool", pool, get_args(Pool))


def pooled(values: Tensor, mask: Tensor | None, pool: str) -> Tensor:
    """(batch, …) to (batch, feature): the first or last token, the mean over tokens, or everything.

    Padding takes no part. Feature maps (batch, channel, height, width) know `mean` and `flatten`.
    """
    if values.dim() == 2:
        return values
    if pool == "flatten":
        return _flattened(values, mask)
    if values.dim() == 4 and pool == "mean":
        return values.mean((2, 3))
    _check_tokens(values, pool)
    real = _real(values, mask)
    if pool == "mean":
        return (values * real.unsqueeze(-1)).sum(1) / real.sum(1, keepdim=True)
    return values[torch.arange(len(values), device=values.device), _place(real, pool)]


def pooled_gradient(gradient: Tensor, mask: Tensor | None, pool: str) -> Tensor:
    """The gradient with which the score answers a step of the pooled vector.

    For `mean` all tokens take the same step v, so that their mean moves by v:
    d/dt s(h + t·1⊗v) = v · Σ_tokens ∂s/∂h_token. For the others it is the gradient at that place.
    """
    if pool == "mean" and gradient.dim() == 4:
        return gradient.sum((2, 3))
    if pool == "mean" and gradient.dim() == 3:
        return (gradient * _real(gradient, mask).unsqueeze(-1)).sum(1)
    return pooled(gradient, mask, pool)


def _flattened(values: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None and mask.shape == values.shape[:2] and not bool(mask.bool().all()):
        raise InputError("pool='flatten' needs inputs of one length, and these differ. Use pool='mean' or pool='cls'")
    return values.flatten(1)


def _check_tokens(values: Tensor, pool: str) -> None:
    if values.dim() != 3:
        raise InputError(
            f"pool={pool!r} needs activations (batch, token, hidden); this layer has shape {tuple(values.shape)}. "
            "Use pool='flatten'"
        )


def _real(values: Tensor, mask: Tensor | None) -> Tensor:
    """1 for tokens, 0 for padding. A mask of another length belongs to another stream (encoder-decoders)."""
    if mask is None or mask.shape != values.shape[:2]:
        return torch.ones(values.shape[:2], device=values.device, dtype=values.dtype)
    return (mask != 0).to(values.dtype)


def _place(real: Tensor, pool: str) -> Tensor:
    first = real.argmax(1)
    return first if pool == "cls" else real.shape[1] - 1 - real.flip(1).argmax(1)
