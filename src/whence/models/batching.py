"""Which examples stand in one batch, and how many."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Literal

import torch

from whence.models.example import Example

__all__ = ["batches", "budget_of"]

BUDGET = {("cpu", "explain"): 2048, ("cuda", "explain"): 16384, ("cpu", "score"): 4096, ("cuda", "score"): 65536}
"""Tokens in a batch, padding included: a backward pass keeps what a forward pass alone lets go."""


def budget_of(device: torch.device, passes: Literal["explain", "score"]) -> int:
    """Tokens that go through a model at once."""
    return BUDGET["cuda" if device.type == "cuda" else "cpu", passes]


def batches(
    examples: Sequence[Example],
    budget: int,
    *,
    mixes: bool = True,
    alone: bool = False,
    keys: Sequence[Hashable] | None = None,
) -> Iterator[list[int]]:
    """Indices of examples in batches of about equal cost, each within `budget` tokens, padding included.

    Without `mixes` the inputs of a batch have one shape. Examples with different `keys` never meet, nor do those that
    do not share what a batch has in common.
    """

    def key(i: int) -> Hashable:
        return (id(examples[i].shared) if examples[i].shared else 0, keys[i] if keys is not None else None,
                None if mixes else examples[i].shape_key)  # fmt: skip

    groups: dict[Hashable, list[int]] = {}
    for i in sorted(range(len(examples)), key=lambda i: examples[i].cost):
        groups.setdefault(key(i), []).append(i)
    for group in groups.values():
        current: list[int] = []
        for i in group:
            if current and (alone or (len(current) + 1) * examples[i].cost > budget):
                yield current
                current = []
            current.append(i)
        yield current
