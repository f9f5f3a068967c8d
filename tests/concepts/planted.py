"""A model whose concepts are known: it reads one direction of its second block and is blind to another."""

from __future__ import annotations

import torch
from torch import Tensor, nn

HIDDEN, TOKENS = 12, 4
USED, UNUSED = 0, 1
"""Directions of the input that carry a concept; the output grows with the first and ignores the second."""


class Block(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.inner = nn.Linear(HIDDEN, HIDDEN, bias=False)
        weight = 0.1 * torch.randn(HIDDEN, HIDDEN, generator=torch.Generator().manual_seed(seed))
        weight[:, UNUSED] = 0  # what is not used is not mixed into anything that is
        self.inner.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.inner(x))


class Planted(nn.Module):
    """Three blocks on (batch, token, hidden); class 1 answers to direction USED, monotonically."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(n) for n in range(3))
        self.spare = nn.ModuleList(nn.Linear(2, 2) for _ in range(9))  # longer, but never run
        head = torch.zeros(2, HIDDEN)
        head[1, USED] = 1.0
        head[:, UNUSED + 1 :] = 0.01 * torch.randn(2, HIDDEN - 2, generator=torch.Generator().manual_seed(9))
        self.head = nn.Linear(HIDDEN, 2)
        self.head.weight = nn.Parameter(head)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        pooled = x.mean(1)
        return self.head(pooled + 0.2 * pooled**3)


def inputs(count: int, seed: int, direction: int | None = None, strength: float = 2.0) -> Tensor:
    """Noise, moved along a direction."""
    x = torch.randn(count, TOKENS, HIDDEN, generator=torch.Generator().manual_seed(seed))
    if direction is not None:
        x[..., direction] += strength
    return x


def model() -> Planted:
    torch.manual_seed(0)
    return Planted().eval()
