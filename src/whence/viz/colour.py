"""One diverging palette: blue against the target, white for nothing, orange for it. Safe for colour-blind readers."""

from __future__ import annotations

import numpy as np

__all__ = ["blend", "contrast_text", "scale_of"]

AGAINST = (33, 102, 172)
FOR = (230, 97, 1)


def scale_of(scores: np.ndarray) -> float:
    """The score that gets the full colour: the largest size. One scale across everything passed in."""
    finite = np.abs(scores[np.isfinite(scores)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def blend(score: float, scale: float) -> tuple[int, int, int]:
    """White at zero, full colour at ±scale."""
    strength = min(1.0, abs(score) / scale) if scale > 0 and np.isfinite(score) else 0.0
    end = FOR if score >= 0 else AGAINST
    return tuple(round(255 + (c - 255) * strength) for c in end)  # type: ignore[return-value]


def contrast_text(background: tuple[int, int, int]) -> str:
    """Black or white, whichever reads better on `background` (relative luminance, WCAG)."""
    linear = [(c / 255 / 12.92) if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in background]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"
