"""Models of one attention layer whose answers are known."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Averaged", "Pooled", "pooled"]

WORDS, WIDTH = 12, 4


class Pooled(nn.Module):
    """softmax(head(Σ_t α_t value_t)) with α = softmax(score_t): score and value are looked up for each word."""

    def __init__(self, scores: Tensor, values: Tensor, head: Tensor, fused: bool = False):
        super().__init__()
        self.scores, self.values = nn.Embedding.from_pretrained(scores[:, None]), nn.Embedding.from_pretrained(values)
        self.head = nn.Parameter(head)
        self.fused = fused

    def forward(self, input_ids: Tensor) -> Tensor:
        scores, values = self.scores(input_ids).transpose(1, 2), self.values(input_ids)
        if self.fused:
            key = F.pad(scores.transpose(1, 2)[:, None], (0, 1))
            query = torch.tensor([1.0, 0.0], dtype=scores.dtype).expand(len(input_ids), 1, 1, 2)
            out = F.scaled_dot_product_attention(query, key, values[:, None], scale=1.0)[:, 0]
        else:
            out = torch.matmul(torch.softmax(scores, -1), values)
        return out.squeeze(1) @ self.head


def pooled(kind: str, fused: bool = False) -> Pooled:
    """`idle`: all values alike. `decides`: one word in a text has the attention, and values are opposites."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(WORDS, generator=generator, dtype=torch.float64)
    head = torch.tensor([[4.0, -4.0]] + [[0.3, 0.1]] * (WIDTH - 1), dtype=torch.float64)
    values = torch.randn(WORDS, WIDTH, generator=generator, dtype=torch.float64)
    if kind == "idle":
        values = values[:1].expand(WORDS, WIDTH).clone()
    if kind == "decides":
        scores[:2] = 6.0  # words 0 and 1 are attended to
        values[0, 0], values[1, 0], values[2:, 0] = 1.0, -1.0, 0.0
        values[2:7, 0] = -1.0
        values[7:, 0] = 1.0
    return Pooled(scores, values, head, fused).eval()


class Averaged(nn.Module):
    """No attention at all."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.words(input_ids).mean(1))
