"""A user's first hour, 1: explain my own classifier.

    python examples/own_classifier.py [FOLDER_OR_HUB_ID] ["a text"]

Any sequence classifier of transformers, and any torch module: below, a small network written by hand, which no library
has ever heard of. It needs no registration and no patch.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

import whence


class Mine(nn.Module):
    """Embedding, one attention layer, mean, two classes."""

    def __init__(self, words: int = 50, width: int = 16):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.block = nn.TransformerEncoderLayer(width, nhead=2, dim_feedforward=32, batch_first=True)
        self.out = nn.Linear(width, 2)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.out(self.block(self.embed(input_ids)).mean(1))


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "sentiment"
    text = sys.argv[2] if len(sys.argv) > 2 else "the plot is thin, but the acting is superb"

    model = whence.load(name)
    exp = whence.explain(model, text)
    print(exp)
    print("\nwords, strongest first:")
    for word in sorted(exp.words(), key=lambda w: -abs(w.score))[:5]:
        print(f"  {word.score:+.3f}  {word.text}")

    other = whence.explain(model, text, target=whence.contrast(*whence.classes(model, text)[:2]))
    print(f"\nwhy {other.target}? {other.top(3)}")

    torch.manual_seed(0)
    mine = Mine().eval()
    exp = whence.explain(mine, {"input_ids": torch.tensor([[3, 14, 15, 9, 2, 6]])}, target=1)
    print("\nmy own module, scores:", exp.scores.round(3).tolist())
    print("its receipt:", exp.conservation)


if __name__ == "__main__":
    main()
