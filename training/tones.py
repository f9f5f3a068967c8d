"""Short calls in a second of noise, each with the time at which it sounds: sounds whose evidence is known.

Every sound has a hum, hiss and a few clicks, which say nothing of its class, and one call of a fifth of a second that
does. The call's place is drawn anew for each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

RATE = 8000
"""Samples in a second; a sound is one second long."""
CALL = 0.2
"""Seconds that a call lasts."""
CLASSES = ("rising", "falling", "trill", "double")


class Sounds(NamedTuple):
    samples: Tensor
    """(sound, sample)"""
    labels: Tensor
    begins: Tensor
    """Seconds at which each call begins."""


def make(count: int, generator: torch.Generator) -> Sounds:
    """So many sounds, drawn with `generator`."""

    def drawn(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    time = torch.arange(RATE) / RATE
    labels = torch.randint(len(CLASSES), (count,), generator=generator)
    begins = drawn(0.02, 0.98 - CALL)
    samples = 0.05 * torch.randn(count, RATE, generator=generator)
    samples += drawn(0.05, 0.15, 1) * torch.sin(2 * math.pi * (drawn(80, 200, 1) * time + drawn(0, 1, 1)))
    for _ in range(3):  # clicks, anywhere
        away = (time - drawn(0, 1, 1)).abs()
        samples += drawn(0.2, 0.6, 1) * torch.randn(count, RATE, generator=generator) * (away < 0.004)
    inside = time - begins[:, None]
    samples += drawn(0.25, 0.6, 1) * _calls(inside, labels, drawn(0.85, 1.15, 1))
    return Sounds(samples, labels, begins)


def _calls(time: Tensor, labels: Tensor, pitch: Tensor) -> Tensor:
    """The call of each class at times since it began, silent outside."""
    share = (time / CALL).clamp(0, 1)
    low, high = 700 * pitch, 1500 * pitch
    phases = torch.stack([
        low * CALL * (share + (high / low - 1) * share**2 / 2),
        high * CALL * (share + (low / high - 1) * share**2 / 2),
        1000 * pitch * CALL * share + 1.5 * torch.sin(2 * math.pi * 6 * share),
        torch.where(share < 0.5, low * CALL * share, high * CALL * share),
    ])  # fmt: skip
    phase = phases.gather(0, labels[None, :, None].expand(1, *time.shape))[0]
    soft = torch.sin(math.pi * share).clamp_min(0).sqrt()
    return torch.sin(2 * math.pi * phase) * soft * ((time >= 0) & (time <= CALL))
