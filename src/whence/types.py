"""Words that several layers use in annotations."""

from __future__ import annotations

from typing import Literal

__all__ = ["Layer", "Receipt"]

Layer = Literal["word", "embedding", "position"]
"""Where relevance is read: the word embedding, everything looked up for a token, or its position embedding alone."""

Receipt = Literal["short", "full", "layers"]
"""How much is booked: inputs and target; every sink; every sink with the layer it is in."""
