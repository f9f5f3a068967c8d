"""Concepts to test with: patterns drawn by formula, and lists of words."""

from __future__ import annotations

import numpy as np

__all__ = ["DRAWN", "NEGATIVE", "NEUTRAL", "OTHER_NEUTRAL", "POSITIVE", "draw"]

DRAWN = ("stripes", "checks", "rings")
SIZE = 96

POSITIVE = (
    "superb wonderful gorgeous brilliant delightful charming excellent masterful witty moving touching beautiful "
    "fantastic amazing remarkable enjoyable perfect stunning terrific marvelous lovely captivating splendid inspired"
).split()
NEGATIVE = (
    "terrible awful boring dull horrible stupid tedious bland pointless lifeless dreadful disappointing annoying weak "
    "ugly lame clumsy shallow pathetic ridiculous messy flat tiresome unfunny"
).split()
NEUTRAL = (
    "wooden square daily northern printed yellow local metal round weekly western annual urban electric rural coastal "
    "digital green central medical national public legal southern"
).split()
OTHER_NEUTRAL = (
    "blue eastern monthly plastic regional paper oval federal stone liquid narrow early red inner marine solar lower "
    "civil brown outer black foreign upper dental white oral late vertical glass official verbal hourly cotton grey "
    "tropical coal alpine modern private iron military polar tall adjacent standard nearby internal external formal "
    "current previous recent separate similar typical usual various visible"
).split()


def draw(pattern: str, count: int, seed: int) -> list[np.ndarray]:
    """Images (96, 96, 3) of one pattern in two random colours, with random scale, angle and phase, and some noise."""
    rng = np.random.default_rng([seed, DRAWN.index(pattern)])
    return [_one(pattern, rng) for _ in range(count)]


def _one(pattern: str, rng: np.random.Generator) -> np.ndarray:
    y, x = np.mgrid[:SIZE, :SIZE] - SIZE / 2
    angle, period = rng.uniform(0, np.pi), rng.uniform(10, 26)
    u, v = (x * np.cos(angle) + y * np.sin(angle)) / period, (y * np.cos(angle) - x * np.sin(angle)) / period
    shift = rng.uniform(0, 1, 2)
    if pattern == "stripes":
        mark = np.sin(2 * np.pi * (u + shift[0])) > 0
    elif pattern == "checks":
        mark = np.sin(np.pi * 1.5 * (u + shift[0])) * np.sin(np.pi * 1.5 * (v + shift[1])) > 0
    else:
        mark = _rings(x, y, rng)
    light, dark = rng.uniform(150, 255, 3), rng.uniform(0, 80, 3)  # a pattern without contrast is none
    light, dark = (light, dark) if rng.random() < 0.5 else (dark, light)
    image = np.where(mark[..., None], light, dark) + rng.normal(0, 12, (SIZE, SIZE, 1))
    return np.clip(image, 0, 255).astype(np.uint8)


def _rings(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Circles of random size at random places, drawn as outlines."""
    mark = np.zeros(x.shape, dtype=bool)
    for _ in range(int(rng.integers(12, 30))):
        distance = np.hypot(x - rng.uniform(-SIZE / 2, SIZE / 2), y - rng.uniform(-SIZE / 2, SIZE / 2))
        mark |= np.abs(distance - rng.uniform(4, 16)) < 1.5
    return mark
