"""What a picture is made of: a few shapes on a white sheet, in pixels from the top left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from whence.results.showing import Font

__all__ = ["Dot", "Drawing", "Line", "Polygon", "Polyline", "Raster", "Rect", "Shape", "Text", "stacked"]

INK, FAINT, HAIR = "#1b1f24", "#656d76", "#d8dee4"
"""Text, lesser text, thin lines."""

Anchor = Literal["start", "middle", "end"]
Points: TypeAlias = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    fill: str
    radius: float = 0.0
    opacity: float = 1.0
    title: str = ""
    """Shown when the pointer rests on it, where the format can."""

    def moved(self, x: float, y: float) -> Rect:
        return replace(self, x=self.x + x, y=self.y + y)


@dataclass(frozen=True)
class Text:
    x: float
    y: float
    """The baseline."""
    text: str
    size: float = 12.0
    fill: str = INK
    anchor: Anchor = "start"
    bold: bool = False
    width: float | None = None
    """The room it has to fill: coloured boxes and their text then agree, whatever font a viewer has."""
    rotate: float = 0.0
    """Degrees, clockwise."""
    rtl: bool = False
    title: str = ""

    def moved(self, x: float, y: float) -> Text:
        return replace(self, x=self.x + x, y=self.y + y)


@dataclass(frozen=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float
    stroke: str = HAIR
    width: float = 1.0
    dash: tuple[float, ...] = ()

    def moved(self, x: float, y: float) -> Line:
        return replace(self, x1=self.x1 + x, y1=self.y1 + y, x2=self.x2 + x, y2=self.y2 + y)


@dataclass(frozen=True)
class Polyline:
    points: Points
    stroke: str
    width: float = 1.8
    dash: tuple[float, ...] = ()
    title: str = ""

    def moved(self, x: float, y: float) -> Polyline:
        return replace(self, points=tuple((a + x, b + y) for a, b in self.points))


@dataclass(frozen=True)
class Polygon:
    points: Points
    fill: str
    opacity: float = 1.0
    title: str = ""

    def moved(self, x: float, y: float) -> Polygon:
        return replace(self, points=tuple((a + x, b + y) for a, b in self.points))


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    radius: float
    fill: str
    opacity: float = 1.0
    title: str = ""

    def moved(self, x: float, y: float) -> Dot:
        return replace(self, x=self.x + x, y=self.y + y)


@dataclass(frozen=True, eq=False)
class Raster:
    """An array of pixels (height, width, 3), uint8, stretched over a place: with sharp edges, or smoothly."""

    x: float
    y: float
    width: float
    height: float
    pixels: np.ndarray
    smooth: bool = False
    title: str = ""

    def moved(self, x: float, y: float) -> Raster:
        return replace(self, x=self.x + x, y=self.y + y)

    def at(self, width: int, height: int) -> np.ndarray:
        """The pixels resampled to a size."""
        from PIL import Image  # late: `import whence` stays light

        kind = Image.Resampling.BICUBIC if self.smooth else Image.Resampling.NEAREST
        return np.asarray(Image.fromarray(self.pixels).resize((max(width, 1), max(height, 1)), kind))


Shape: TypeAlias = Rect | Text | Line | Polyline | Polygon | Dot | Raster


@dataclass(frozen=True, eq=False)
class Drawing:
    """Shapes on a white sheet, the first ones at the bottom."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str = ""
    """What is seen, in words: for screen readers."""
    scale: float = 1.0
    """How large a pixel of the drawing is: 1/96 inch times this."""
    font: Font = "sans"

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return self.width * self.scale / 96, self.height * self.scale / 96

    def moved(self, x: float, y: float) -> tuple[Shape, ...]:
        return tuple(shape.moved(x, y) for shape in self.shapes)


def stacked(parts: Sequence[Drawing], *, columns: int = 1, gap: float = 16.0, title: str = "") -> Drawing:
    """Drawings in rows of `columns`, each column as wide and each row as high as needed."""
    rows = [parts[n : n + columns] for n in range(0, len(parts), columns)]
    widths = [max(row[c].width for row in rows if c < len(row)) for c in range(min(columns, len(parts)))]
    shapes: list[Shape] = []
    top = 0.0
    for row in rows:
        left = 0.0
        for part, width in zip(row, widths, strict=False):
            shapes += part.moved(left, top)
            left += width + gap
        top += max(part.height for part in row) + gap
    named = title or "; ".join(_titles(parts))
    return Drawing(sum(widths) + gap * (len(widths) - 1), top - gap, tuple(shapes), named)


def _titles(parts: Iterable[Drawing]) -> list[str]:
    return list(dict.fromkeys(part.title for part in parts if part.title))
