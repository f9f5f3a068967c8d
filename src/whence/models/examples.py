"""One encoded input, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

__all__ = ["Example", "batches", "pad"]


@dataclass(frozen=True)
class Example:
    """Tensors for the model (without a batch axis) and what is needed to show the result."""

    inputs: dict[str, Tensor]
    tokens: tuple[str, ...] = ()
    offsets: tuple[tuple[int, int], ...] = ()
    word_ids: tuple[int | None, ...] = ()
    special: tuple[bool, ...] = ()
    sides: tuple[str, ...] = ()
    text: str | None = None
    image: np.ndarray | None = None
    position: int | None = None
    continuation: tuple[int, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def length(self) -> int:
        """What the example costs: its tokens, or 1 where inputs have a fixed size."""
        lengths = [v.shape[0] for v in self.inputs.values() if v.dim() == 1 and not v.is_floating_point()]
        return max(lengths, default=1)


def batches(examples: Sequence[Example], budget: int, *, equal_lengths: bool = False) -> Iterator[list[int]]:
    """Indices of examples in batches of about equal length, each within `budget` tokens padding included."""
    order = sorted(range(len(examples)), key=lambda i: examples[i].length)
    current: list[int] = []
    for i in order:
        length = examples[i].length
        full = current and (len(current) + 1) * length > budget
        other = current and equal_lengths and examples[current[0]].length != length
        if full or other:
            yield current
            current = []
        current.append(i)
    if current:
        yield current


def pad(examples: Sequence[Example], fill: dict[str, int], side: str = "right") -> dict[str, Tensor]:
    """Stack inputs, filling shorter sequences up on one side. Decoder inputs are always filled on the right."""
    stacked: dict[str, Tensor] = {}
    for name in examples[0].inputs:
        values = [e.inputs[name] for e in examples]
        if len({v.shape for v in values}) > 1:
            towards = "right" if name.startswith("decoder") else side
            stacked[name] = pad_sequence(values, True, fill.get(name, 0), towards)
        else:
            stacked[name] = torch.stack(values)
    return stacked
