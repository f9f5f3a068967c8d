"""Pictures of coloured shapes with questions about one of them: pictures whose evidence is known.

After Sort-of-CLEVR [Santoro et al. 2017]: six things of six colours, each a circle, a square or a triangle, and a
question about the thing of one colour. What answers it is that thing, whose pixels are known.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SIZE = 64
"""Pixels of a picture's side."""
COLOURS = {
    "red": (220, 40, 40), "green": (40, 170, 60), "blue": (50, 80, 220), "yellow": (235, 205, 50),
    "purple": (150, 60, 190), "black": (40, 40, 40),
}  # fmt: skip
SHAPES = ("circle", "square", "triangle")
SIDES = ("left", "right")
QUESTIONS = ("which shape is the one in {}", "which side is the one in {}")
WORDS = (
    "<pad>", "<s>", "</s>", "<unk>", "<image>", *COLOURS, *SHAPES, *SIDES,
    *sorted({word for question in QUESTIONS for word in question.replace("{}", "").split()}),
)  # fmt: skip


class Scenes(NamedTuple):
    """Pictures with the answers to everything that can be asked about them, and one of the questions."""

    pictures: Tensor
    """(scene, channel, row, column), from 0 to 255"""
    outlines: Tensor
    """(scene, colour, row, column): the pixels of each thing."""
    answers: Tensor
    """(scene, question, colour): the word that answers it, by its number among `WORDS`."""
    kinds: Tensor
    """Which question is asked."""
    colours: Tensor
    """Which thing it is about."""

    def question(self, n: int) -> str:
        return QUESTIONS[int(self.kinds[n])].format(tuple(COLOURS)[int(self.colours[n])])

    def answer(self, n: int) -> str:
        return WORDS[int(self.answers[n, self.kinds[n], self.colours[n]])]

    def evidence(self, n: int) -> Tensor:
        """(row, column): the pixels of the thing that is asked about."""
        return self.outlines[n, self.colours[n]]


def make(count: int, generator: torch.Generator, device: torch.device | str = "cpu") -> Scenes:
    """So many scenes with a question each, drawn with `generator`, which is of the same device."""

    def drawn(*shape: int) -> Tensor:
        return torch.rand(count, *shape, generator=generator, device=device)

    things = len(COLOURS)
    cells = drawn(16).argsort(1)[:, :things]  # places of four by four, so that nothing overlaps
    middles = torch.stack([cells // 4, cells % 4], -1) * 16 + 8 + (drawn(things, 2) * 4 - 2)
    radius = 5 + 2 * drawn(things)
    shapes = (drawn(things) * len(SHAPES)).long()
    line = torch.arange(SIZE, device=device).float()
    down = line[None, None, :, None] - middles[..., 0, None, None]
    across = line[None, None, None, :] - middles[..., 1, None, None]
    size = radius[..., None, None]
    outlines = torch.stack([
        down**2 + across**2 <= size**2,
        torch.maximum(down.abs(), across.abs()).expand(-1, -1, SIZE, SIZE) <= 0.88 * size,
        (down.abs() <= size) & (across.abs() <= (down + size) / 2),
    ])  # fmt: skip
    masks = outlines.gather(0, shapes[None, :, :, None, None].expand(1, -1, -1, SIZE, SIZE))[0]
    paint = torch.tensor(list(COLOURS.values()), device=device).float()
    pictures = 215 + 20 * drawn(1, 1, 1).expand(-1, 3, SIZE, SIZE) - 10
    covered = masks.any(1, keepdim=True)
    pictures = torch.where(covered, torch.einsum("nkij,kc->ncij", masks.float(), paint), pictures)
    pictures = (pictures + 16 * (drawn(3, SIZE, SIZE) - 0.5)).clamp(0, 255)
    names = {word: n for n, word in enumerate(WORDS)}
    of_shape = torch.tensor([names[s] for s in SHAPES], device=device)[shapes]
    of_side = torch.tensor([names[s] for s in SIDES], device=device)[(middles[..., 1] > SIZE / 2).long()]
    kinds, colours = (drawn() * len(QUESTIONS)).long(), (drawn() * things).long()
    return Scenes(pictures, masks, torch.stack([of_shape, of_side], 1), kinds, colours)
