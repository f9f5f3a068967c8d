"""Which examples stand in one batch, and how many."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Literal

import torch

from whence.core.recording import even_length
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example

__all__ = ["batches", "budget_of"]

BUDGET = {("cpu", "explain"): 2048, ("cuda", "explain"): 16384, ("cpu", "score"): 4096, ("cuda", "score"): 65536}
"""Tokens in a batch, padding included: a backward pass keeps what a forward pass alone lets go."""


def budget_of(device: torch.device, passes: Literal["explain", "score"]) -> int:
    """Tokens that go through a model at once."""
    return BUDGET["cuda" if device.type == "cuda" else "cpu", passes]


def batches(
    model: AbstractAdapter, examples: Sequence[Example], budget: int, keys: Sequence[Hashable] | None = None
) -> Iterator[list[int]]:
    """Indices of examples in batches of about equal cost, each within `budget` tokens, padding included.

    The model says who may stand beside whom. Examples with different `keys` never meet, nor do those that do not have
    the same inputs or do not share what a batch has in common.
    """

    def key(i: int) -> Hashable:
        example = examples[i]
        shared = id(example.shared) if example.shared else 0
        return shared, frozenset(example.inputs), model.apart(example), keys[i] if keys else None

    rounded: Callable[[int], int] = even_length if model.replays else int
    for group in _grouped(range(len(examples)), key):
        some = [examples[i] for i in group]
        beside = model.beside(some) if len(some) > 1 else "alone"
        parts = [group] if beside != "equal" else _grouped(group, lambda i: examples[i].shape_key)
        for part in parts:
            ordered = sorted(part, key=lambda i: examples[i].cost)
            costs = [rounded(examples[i].cost) for i in ordered]
            yield from _cut(ordered, costs, 0 if beside == "alone" else budget)


def _grouped(indices: Iterable[int], key: Callable[[int], Hashable]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for i in indices:
        groups.setdefault(key(i), []).append(i)
    return list(groups.values())


def _cut(ordered: Sequence[int], costs: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Runs of examples, shortest first, as long as they are within the budget; at least one in each."""
    current: list[int] = []
    for i, cost in zip(ordered, costs, strict=True):
        if current and (len(current) + 1) * cost > budget:
            yield current
            current = []
        current.append(i)
    yield current
