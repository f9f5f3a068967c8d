"""One diverging palette: blue against the target, white for nothing, orange for it. Safe for colour-blind readers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["SERIES", "blend", "contrast_text", "heat", "scale_of", "shade", "sink_colours"]

AGAINST = (33, 102, 172)
FOR = (230, 97, 1)
STEPS = 32
"""Shades of each colour in figures: finer ones can't be told apart."""

# Okabe and Ito: told apart by colour-blind readers as well.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#3d3d3d", "#999933")


SINKS = ("#7f8fa9", "#b6c2d4", "#5e3c99", "#b2abd2", "#1b7837", "#a6dba0")
"""What no input has: the colours of a receipt in the report (.w-k1 and on), in the order in which it lists sinks."""


def sink_colours(kinds: Sequence[str]) -> dict[str, str]:
    """A colour for each kind of sink, the usual ones always in the same.

    >>> sink_colours(["constant", "bias"])["bias"]
    '#7f8fa9'
    """
    usual = ("bias", "position", "constant")
    order = [*usual, *(kind for kind in kinds if kind not in usual)]
    return {kind: SINKS[order.index(kind) % len(SINKS)] for kind in kinds}


def scale_of(scores: np.ndarray) -> float:
    """The score that gets the full colour: the largest size. One scale across everything passed in."""
    finite = np.abs(scores[np.isfinite(scores)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def blend(score: float, scale: float) -> tuple[int, int, int]:
    """White at zero, full colour at ±scale."""
    strength = min(1.0, abs(score) / scale) if scale > 0 and np.isfinite(score) else 0.0
    end = FOR if score >= 0 else AGAINST
    return tuple(round(255 + (c - 255) * strength) for c in end)  # type: ignore[return-value]


def shade(score: float, scale: float) -> str:
    """`blend` as #rrggbb, in `STEPS` shades, so that things of nearly one colour can share it.

    >>> shade(0.0, 1.0), shade(2.0, 1.0)
    ('#ffffff', '#e66101')
    """
    strength = round(min(1.0, abs(score) / scale) * STEPS) / STEPS if scale > 0 and np.isfinite(score) else 0.0
    return "#{:02x}{:02x}{:02x}".format(*blend(-strength if score < 0 else strength, 1.0))


def heat(scores: np.ndarray, scale: float) -> np.ndarray:
    """`blend` of a whole array: (rows, columns, 3), uint8."""
    strength = np.clip(np.abs(np.nan_to_num(scores)) / (scale or 1.0), 0, 1)[..., None]
    end = np.where(np.asarray(scores)[..., None] >= 0, np.array(FOR), np.array(AGAINST))
    mixed: np.ndarray = np.rint(255 + (end - 255) * strength).astype(np.uint8)
    return mixed


def contrast_text(background: tuple[int, int, int]) -> str:
    """Black or white, whichever reads better on `background` (relative luminance, WCAG)."""
    linear = [(c / 255 / 12.92) if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in background]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"
