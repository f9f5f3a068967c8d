"""Seeds that depend on what is explained, so that an input gets the same noise alone and in any batch."""

from __future__ import annotations

import hashlib

import torch

from whence.models.example import Example, bytes_of

__all__ = ["seed_of"]


def seed_of(example: Example, *numbers: int) -> int:
    """A seed of 63 bits from the explained inputs and a few numbers (the user's seed, the number of a sample)."""
    digest = hashlib.sha256(repr(numbers).encode())
    for part in example.parts:
        value = example.inputs[part.source.name]
        if part.places is not None:
            value = value[torch.tensor(part.places)]
        digest.update(f"{part.source.name}{tuple(value.shape)}{value.dtype}".encode())
        digest.update(bytes_of(value.cpu().double() if value.is_floating_point() else value))
    return int.from_bytes(digest.digest()[:8], "big") >> 1
