"""Rows that end the process that touches them. In a module, so that other processes can load it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from whence.data.rows import Row
from whence.methods.random_scores import Random
from whence.runner.window import Encoded

__all__ = ["DeadlyMethod", "deadly_encoder"]

KILLER = "killer"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class DeadlyMethod(Random):
    """Scores drawn by chance, but for one row."""

    def explain(self, model, examples, targets):
        if any(KILLER in (example.text or "") for example in examples):
            _die()
        return super().explain(model, examples, targets)


def deadly_encoder(rows: Sequence[Row]) -> list[Encoded]:
    """What an encoder process is given in place of an encoder: texts in capitals."""
    if any(KILLER in row.content for row in rows):
        _die()
    return [row.content.upper() for row in rows]
