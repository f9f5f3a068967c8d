"""Whose rows are whose, where a layer has experts: modules of a list, slices of one weight, or groups of rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

__all__ = ["listed", "of_rows", "of_weight"]


def listed(module: nn.Module) -> Iterator[tuple[nn.Module, int, int]]:
    """Experts that are modules: each, its number, and how many there are."""
    for name, held in module.named_modules():
        if isinstance(held, nn.ModuleList | nn.ModuleDict) and name.rpartition(".")[2] == "experts":
            members = list(held.children())
            yield from ((expert, number, len(members)) for number, expert in enumerate(members))


def of_weight(weight: Tensor) -> tuple[int, int] | None:
    """Which of how many experts a matrix belongs to, where it is a slice of the weights of all.

    >>> of_weight(torch.zeros(4, 3, 2)[1]), of_weight(torch.zeros(3, 2))
    ((1, 4), None)
    """
    base = weight._base
    if base is None or base.dim() != 3 or base.shape[1:] != weight.shape or not base.is_contiguous():
        return None
    return (weight.storage_offset() - base.storage_offset()) // base.stride(0), base.shape[0]


def of_rows(ends: Tensor, rows: int) -> Tensor:
    """Whose each row is, from where the rows of every expert end.

    >>> of_rows(torch.tensor([2, 2, 3]), 3).tolist()
    [0, 0, 2]
    """
    return torch.searchsorted(ends.long(), torch.arange(rows, device=ends.device), right=True)
