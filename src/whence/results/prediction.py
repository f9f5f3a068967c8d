"""Small values that explanations are made of."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

__all__ = ["Part", "Prediction", "Word"]


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

    @property
    def count(self) -> int:
        return prod(self.shape)
