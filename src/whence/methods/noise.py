"""Seeds that depend on what is explained, so that an input gets the same noise alone and in any batch."""

from __future__ import annotations

import hashlib

from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example

__all__ = ["seed_of"]


def seed_of(model: AbstractAdapter, example: Example, *numbers: int) -> int:
    """A seed of 63 bits from the explained inputs and a few numbers (the user's seed, the number of a sample)."""
    digest = hashlib.sha256(repr(numbers).encode())
    for name in model.sources:
        value = example.inputs[name]
        digest.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        digest.update((value.double() if value.is_floating_point() else value).numpy(force=True).tobytes())
    return int.from_bytes(digest.digest()[:8], "big") >> 1
