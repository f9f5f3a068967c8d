"""Models of text that see a picture beside it: its squares are features as the tokens are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from whence.models.example import Example, Features
from whence.models.image import cells_of, pixels_of
from whence.models.text import IDS, TextAdapter

__all__ = ["BesidePicture"]


class BesidePicture(TextAdapter):
    """What is no token is a square of a picture, or a patch in a line of them."""

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        if part.source.name == IDS.name:
            return relevance
        if relevance.dim() < 3:  # patches in a line
            return relevance.float().reshape(part.count, -1).sum(1)
        return cells_of(relevance.float().sum(-3), part.shape).reshape(-1)

    def _without(self, example: Example, part: Features, gone: np.ndarray, fill: str) -> Example:
        """Squares are replaced by 0: the mean colour, where a picture is normalised."""
        name = part.source.name
        if name == IDS.name:
            return super()._without(example, part, gone, fill)
        keep, pixels = torch.ones(part.count, dtype=torch.bool), example.inputs[name]
        keep[torch.from_numpy(gone)] = False
        marks = keep[:, None] if pixels.dim() < 3 else pixels_of(keep.reshape(part.shape), pixels.shape[-2:])
        left = torch.where(marks.to(pixels.device), pixels, torch.zeros((), dtype=pixels.dtype))
        return replace(example, inputs={**example.inputs, name: left})
