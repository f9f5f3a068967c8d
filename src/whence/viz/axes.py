"""What charts share: places for values, round ticks, grid lines, titles."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from whence.viz.drawing import FAINT, HAIR, Anchor, Line, Rect, Shape, Text
from whence.viz.metrics import Measure

__all__ = ["Frame", "alike", "minus", "noted", "number", "signed", "ticks"]

MARGIN = 20.0


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two values: multiples of 1, 2, 2.5 or 5 times a power of ten.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    rough = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((m * power for m in (1, 2, 2.5, 5) if m * power >= rough * 0.999), 10 * power)
    first = math.ceil(low / step - 1e-9)
    values = [n * step for n in range(first, first + 20) if n * step <= high + 1e-9 * step]
    return [float(f"{v:.10g}") + 0.0 for v in values]


NEGATIVE = re.compile(r"(?<![\w.])-(?=[\d.])")
"""The hyphen of a negative number."""


def minus(text: str) -> str:
    """Negative numbers with a true minus; other hyphens stay.

    >>> minus("left-hand -0.5 [-1.0, 2e-05]")
    'left-hand −0.5 [−1.0, 2e-05]'
    """
    return NEGATIVE.sub("−", text)


def number(value: float) -> str:
    """Short, with a real minus sign."""
    return minus(f"{value:.3g}")


def signed(value: float) -> str:
    return minus(f"{value:+.3g}")


def alike(values: Iterable[float], *, plus: bool = False) -> list[str]:
    """Numbers that are read together, with as many decimals as show three digits of the largest.

    >>> alike([1.5, -0.0213, 0.0], plus=True)
    ['+1.50', '−0.02', '0.00']
    """
    found = [float(value) for value in values]
    largest = max((abs(v) for v in found if math.isfinite(v)), default=0.0)
    if not 1e-4 <= largest < 1e5:
        return [signed(v) if plus else number(v) for v in found]
    digits = min(6, max(0, 2 - math.floor(math.log10(largest))))
    return [_fixed(v, digits, plus) for v in found]


def _fixed(value: float, digits: int, plus: bool) -> str:
    shown = f"{value:+.{digits}f}" if plus else f"{value:.{digits}f}"
    return shown.lstrip("+-") if not float(shown) else minus(shown)


def _ticked(values: Sequence[float], plus: bool = False) -> list[str]:
    """Ticks with the decimals that the finest of them needs."""
    digits = next((d for d in range(7) if all(abs(round(v, d) - v) < 1e-9 for v in values)), None)
    if digits is None or max(map(abs, values), default=0.0) >= 1e5:
        return [signed(v) if plus and v else number(v) for v in values]
    return [_fixed(v, digits, plus) for v in values]


def noted(x: float, y: float, text: str, measure: Measure, anchor: Anchor = "start", fill: str = FAINT) -> list[Shape]:
    """A small text on white, so that lines of the grid don't run through it."""
    wide = measure(text, 10, False)
    left = x if anchor == "start" else x - wide
    return [Rect(left - 1, y - 9, wide + 2, 11, "#ffffff"), Text(x, y, text, 10, fill, anchor)]


@dataclass(frozen=True)
class Frame:
    """A rectangle of the sheet in which data have their places."""

    left: float
    top: float
    width: float
    height: float
    x0: float = 0.0
    x1: float = 1.0
    y0: float = 0.0
    y1: float = 1.0

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def x(self, value: float) -> float:
        share = (value - self.x0) / ((self.x1 - self.x0) or 1)
        return self.left + min(max(share, 0.0), 1.0) * self.width

    def y(self, value: float) -> float:
        share = (value - self.y0) / ((self.y1 - self.y0) or 1)
        return self.bottom - min(max(share, 0.0), 1.0) * self.height

    def points(self, xs: np.ndarray, ys: np.ndarray) -> tuple[tuple[float, float], ...]:
        return tuple((self.x(float(a)), self.y(float(b))) for a, b in zip(xs, ys, strict=True))

    def grid(self, x: str = "", y: str = "", *, about: int = 5) -> list[Shape]:
        """Faint lines at round values of y, numbers on both axes, and their names."""
        made: list[Shape] = []
        upward, along = ticks(self.y0, self.y1, about), ticks(self.x0, self.x1, about)
        for value, shown in zip(upward, _ticked(upward), strict=True):
            made.append(Line(self.left, self.y(value), self.right, self.y(value), FAINT if value == self.y0 else HAIR))
            made.append(Text(self.left - 7, self.y(value) + 3.5, shown, 10, FAINT, "end"))
        for value, shown in zip(along, _ticked(along), strict=True):
            made.append(Text(self.x(value), self.bottom + 16, shown, 10, FAINT, "middle"))
        if x:
            made.append(Text(self.left + self.width / 2, self.bottom + 34, x, 11, anchor="middle"))
        if y:
            made.append(Text(self.left - 42, self.top + self.height / 2, y, 11, anchor="middle", rotate=-90))
        return made

    def grid_across(self, *, about: int = 5, plus: bool = False) -> list[Shape]:
        """Faint upright lines at round values of x with their numbers beneath."""
        made: list[Shape] = []
        along = ticks(self.x0, self.x1, about)
        for value, shown in zip(along, _ticked(along, plus), strict=True):
            made.append(Line(self.x(value), self.top, self.x(value), self.bottom, FAINT if value == 0 else HAIR))
            made.append(Text(self.x(value), self.bottom + 14, shown, 10, FAINT, "middle"))
        return made
