"""Colours of a terminal that has 256 or 16 of them: orange stays orange and blue stays blue, in fewer steps.

Left to itself, rich takes the nearest of the 6 × 6 × 6 cube, channel by channel: light orange becomes yellow or pink,
and light blue grey.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from rich.color import Color, ColorType
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style

from whence.viz.colour import AGAINST, FOR, contrast_text

__all__ = ["Hued", "nearest"]

RAMPS: dict[str, dict[str, tuple[int, ...]]] = {
    "256": {"for": (231, 223, 216, 215, 209, 208, 202, 166), "against": (231, 153, 111, 110, 74, 68, 67, 25)},
    "standard": {"for": (15, 3, 3, 3), "against": (15, 4, 4, 4)},
    "windows": {"for": (15, 3, 3, 3), "against": (15, 4, 4, 4)},
}
"""Numbers of colours from white to full, by what a terminal can show."""


class Hued:
    """Something to print, whose colours keep their hue where the terminal has few."""

    def __init__(self, inner: Any):
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        system = console.color_system or ""
        for segment in console.render(self.inner, options):
            if system in RAMPS and segment.style is not None:
                yield Segment(segment.text, _kept(segment.style, system), segment.control)
            else:
                yield segment


@lru_cache(maxsize=4096)
def _kept(style: Style, system: str) -> Style:
    """The style with its colours from the ramps; black or white text, whichever reads better on the new ground."""
    ground = _number(style.bgcolor, system)
    letters = _number(style.color, system) if ground is None else None
    if ground is None and letters is None:
        return style
    if ground is None:
        return style + Style(color=Color.from_ansi(letters)) if letters is not None else style
    back = Color.from_ansi(ground)
    rgb = back.get_truecolor()
    ink = 16 if contrast_text((rgb.red, rgb.green, rgb.blue)) == "#000000" else 231
    ink = ink if system == "256" else 0 if ink == 16 else 15
    return style + Style(color=Color.from_ansi(ink), bgcolor=back)


def _number(colour: Color | None, system: str) -> int | None:
    """The number for a colour of the palette; None for any other."""
    if colour is None or colour.type is not ColorType.TRUECOLOR or colour.triplet is None:
        return None
    return nearest((colour.triplet.red, colour.triplet.green, colour.triplet.blue), system)


def nearest(rgb: tuple[int, int, int], system: str = "256") -> int | None:
    """The step of a ramp that is as far from white as `rgb`; None where that is of no ramp.

    >>> nearest((255, 255, 255)), nearest((230, 97, 1)), nearest((33, 102, 172)), nearest((0, 200, 0))
    (231, 166, 25, None)
    """
    for name, end in (("for", FOR), ("against", AGAINST)):
        strengths = [(255 - have) / (255 - full) for have, full in zip(rgb, end, strict=True)]
        if max(strengths) - min(strengths) <= 0.08 and max(strengths) <= 1.04:  # on the way from white to this colour
            ramp = RAMPS[system][name]
            return ramp[round(min(1.0, sum(strengths) / 3) * (len(ramp) - 1))]
    return None
