"""Small modules whose explanations can be written down by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Additive", "Interacting"]


class Additive(nn.Module):
    """f_c = Σ_t E[t] · w_c + bias. Id 0 has the embedding 0, so it is what is there when nothing is."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.words = nn.Embedding(20, 4).double()
        self.head = nn.Linear(4, 2).double()
        with torch.no_grad():
            self.words.weight.copy_(torch.randn(20, 4, generator=generator, dtype=torch.float64))
            self.words.weight[0] = 0
            self.head.weight.copy_(torch.randn(2, 4, generator=generator, dtype=torch.float64))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.words(tokens).sum(1))

    def by_hand(self, tokens: Tensor, label: int) -> Tensor:
        """w_c · x_t, one number per token."""
        return (self.words(tokens) @ self.head.weight[label]).detach()


class Interacting(nn.Module):
    """Five numbers: pairs that multiply, (0, 1) and (3, 4), and one that stands alone."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        value = x[:, 0] * x[:, 1] + self.scale * x[:, 2] + torch.sin(x[:, 3] * x[:, 4]) + 0.5 * x[:, 3]
        return torch.stack([value, -value], 1)
