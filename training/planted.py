"""A transformer whose circuit is known, for it is set by hand: induction, A B … A → B.

Two layers of attention without MLPs, four heads each. In layer 0 one head writes into every token which one stands
before it; in layer 1 one head looks from the last token for what stands behind an equal one, and copies that into the
output [Elhage et al. 2021]. The other heads look at anything, and write much where nobody reads and a little everywhere
else.

In the corrupt text the first A is another word: nothing stands behind an A then, and the circuit finds nothing.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["CIRCUIT", "EDGES", "LENGTH", "Induction", "Planted", "Question", "question"]

WORDS, LENGTH, HEADS, WIDTH = 16, 12, 4, 16
UNREAD = 16
"""Numbers of the stream that nobody reads."""
TOKEN, PLACE, BEFORE, OUT, REST = np.cumsum([0, WORDS, LENGTH, WORDS, WORDS]).tolist()
SIZE = REST + UNREAD
CIRCUIT = np.zeros((2, HEADS), dtype=bool)
CIRCUIT[0, 1] = CIRCUIT[1, 2] = True
"""(layer, head): which heads do it."""


class Planted(NamedTuple):
    """Edges by what they lead from and to, in the order of `whence.patch(…, at="edges")`."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    planted: np.ndarray


def _edges() -> Planted:
    heads = [f"layer {layer} head {head}" for layer in range(2) for head in range(HEADS)]
    rows, columns = ("input", *heads), (*heads, "target")
    way = ["input", "layer 0 head 1", "layer 1 head 2", "target"]
    return Planted(rows, columns, np.array([[(a, b) in pairwise(way) for b in columns] for a in rows]))


EDGES = _edges()
"""The way on which a changed word A becomes another answer: to the head that copies it one token on, to the one that
looks for it, to the output."""


class Heads(nn.Module):
    """Attention of four heads, added to the stream."""

    def __init__(self, generator: torch.Generator, noise: float):
        super().__init__()
        draw = lambda *shape: torch.randn(*shape, generator=generator)
        self.query, self.key, self.value = (nn.Linear(SIZE, HEADS * WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(HEADS * WIDTH, SIZE, bias=False)
        with torch.no_grad():
            for layer in (self.query, self.key, self.value):
                layer.weight.copy_(draw(HEADS * WIDTH, SIZE) * SIZE**-0.5)
            self.out.weight.copy_(draw(SIZE, HEADS * WIDTH) * noise)
            self.out.weight[REST:] = draw(UNREAD, HEADS * WIDTH)

    def plant(self, head: int, query: Tensor, key: int, value: int, out: int, sharp: float) -> None:
        """Let a head look where key · query is large, and copy `value` to `out`: where each begins in the stream."""
        own, eye = slice(head * WIDTH, (head + 1) * WIDTH), torch.eye(WIDTH)
        count = WORDS if key == BEFORE else LENGTH
        with torch.no_grad():
            for layer in (self.query, self.key, self.value):
                layer.weight[own] = 0
            self.out.weight[:, own] = 0
            self.query.weight[own] = query * sharp * WIDTH**0.5
            self.key.weight[own, key : key + count] = eye[:, :count]
            self.value.weight[own, value : value + WORDS] = eye[:, :WORDS]
            self.out.weight[out : out + WORDS, own] = eye[:WORDS]

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(heads.transpose(1, 2).flatten(2))


class Induction(nn.Module):
    """Ids (text, token) to logits of the word that comes behind the last one."""

    def __init__(self, seed: int = 0, noise: float = 0.02, sharp: float = 8.0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.words = nn.Embedding(WORDS, SIZE)
        self.places = nn.Parameter(torch.zeros(LENGTH, SIZE))
        self.layers = nn.ModuleList(Heads(generator, noise) for _ in range(2))
        with torch.no_grad():
            self.words.weight.zero_()
            self.words.weight[:, TOKEN : TOKEN + WORDS] = torch.eye(WORDS)
            self.places[:, PLACE : PLACE + LENGTH] = torch.eye(LENGTH)
        before, same = torch.zeros(WIDTH, SIZE), torch.zeros(WIDTH, SIZE)
        for n in range(1, LENGTH):
            before[n - 1, PLACE + n] = 1
        same[:, TOKEN : TOKEN + WORDS] = torch.eye(WIDTH, WORDS)
        self.layers[0].plant(1, before, PLACE, TOKEN, BEFORE, sharp)
        self.layers[1].plant(2, same, BEFORE, TOKEN, OUT, sharp)
        self.eval()

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids) + self.places[: input_ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return x[:, -1, OUT : OUT + WORDS] * 10


class Question(NamedTuple):
    """Two texts and the words to be told apart."""

    clean: Tensor
    corrupt: Tensor
    right: int
    wrong: int


def question(draw: random.Random) -> Question:
    """A B somewhere, A at the end, and all other words different from both and from each other."""
    first, right, other, *rest = draw.sample(range(WORDS), LENGTH + 1)
    at = draw.randrange(1, LENGTH - 3)  # before the first token stands none
    words = [*rest[:at], first, right, *rest[at : LENGTH - 3], first]
    corrupt = [*words]
    corrupt[at] = other
    return Question(torch.tensor([words]), torch.tensor([corrupt]), right, draw.choice(rest[: LENGTH - 3]))
