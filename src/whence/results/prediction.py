"""Small values that explanations are made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

__all__ = ["Corners", "Part", "Prediction", "Word", "time_span"]


class Corners(NamedTuple):
    """A box in a picture, in pixels. It is written as part of a target's name, and read from there.

    >>> str(Corners(12, 30, 80, 96)), Corners.in_name("cat at (12, 30)–(80, 96)")
    ('(12, 30)–(80, 96)', Corners(left=12, top=30, right=80, bottom=96))
    """

    left: int
    top: int
    right: int
    bottom: int

    def __str__(self) -> str:
        return f"({self.left}, {self.top})–({self.right}, {self.bottom})"

    @classmethod
    def in_name(cls, target: str) -> Corners | None:
        """The box that a target's name ends with; None where there is none."""
        found = re.search(r" \((\d+), (\d+)\)–\((\d+), (\d+)\)$", target)
        return cls(*map(int, found.groups())) if found else None


@dataclass(frozen=True)
class Prediction:
    """What the model said: the classes it knows (or the best few) and their scores, highest first."""

    labels: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    probabilities: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        return self.labels[0] if self.labels else ""


class Word(NamedTuple):
    """A word, the tokens it was made of, and their joint score."""

    text: str
    score: float
    tokens: tuple[int, ...]


def time_span(number: int, seconds: float) -> str:
    """From when to when a piece of a sound is, in seconds.

    >>> time_span(3, 0.02), time_span(3, 0.00125)
    ('0.06–0.08 s', '0.0037–0.0050 s')
    """
    digits = 2 if seconds >= 0.0099 else 4
    return f"{number * seconds:.{digits}f}–{(number + 1) * seconds:.{digits}f} s"


@dataclass(frozen=True)
class Part:
    """The features of one input of the model: which of the scores are its own, and how they are laid out."""

    source: str
    """The argument of the model: "input_ids", "pixel_values"."""
    kind: str = "token"
    """What its features are: "token", "patch", "pixel", "frame", "column"."""
    side: str = ""
    """Which part of the whole it is, where there are several: "source", "decoder"."""
    shape: tuple[int, ...] = ()
    seconds: float = 0.0
    """How long each piece of a sound is."""

    @property
    def count(self) -> int:
        return prod(self.shape)
