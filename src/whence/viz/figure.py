"""A figure: what users hold, look at in a notebook, and save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from whence import cancel
from whence.results.showing import Column, Font, Writers, draws, save_as
from whence.viz import canvas, fonts, metrics
from whence.viz.drawing import Drawing, stacked
from whence.viz.metrics import Measure
from whence.viz.svg import to_svg

__all__ = ["Figure", "figure_of", "pile"]


COLUMNS: dict[Column, float] = {"single": 3.25, "double": 6.75}
"""Inches: what most venues have."""
TRIM = 16.0
"""Pixels of the white around a figure that a paper has itself."""
PRINT = 0.8
"""How large a pixel is in a paper: letters of 10 to 15 pixels become 6 to 9 points."""


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture that can still be laid out: each format breaks lines with the widths of its own font."""

    layout: Callable[[Measure], Drawing]
    within: Callable[[Measure, float], Drawing] | None = None
    """The same at a width in pixels, where it has no width of its own: what a column of a paper needs."""

    @property
    def drawing(self) -> Drawing:
        """The shapes, laid out as in SVG."""
        return self.layout(_asking(metrics.measure))

    @property
    def svg(self) -> str:
        return to_svg(self.drawing)

    def png(self, scale: float | None = None) -> bytes:
        """Pixels: `scale` to one pixel of the drawing (2, less for huge ones). Needs the extra `viz`."""
        return canvas.to_png(self.layout(_asking(fonts.measure)), scale)

    @property
    def pdf(self) -> bytes:
        """One page, as large as the figure, with its fonts. Needs the extra `viz`."""
        return canvas.to_pdf(self.layout(_asking(fonts.measure)))

    def save(self, path: str | Path, *, column: Column | None = None, font: Font | None = None) -> Path:
        """Write to `path`; the suffix decides: .svg, .pdf or .png.

        For a paper, `column` is "single" (3.25 inches wide) or "double" (6.75), and `font` "sans" or "serif"; an .svg
        then has its letters as outlines, a .png 600 dots to the inch. A .pdf has its fonts as Type 42 in any case.
        """
        own: Writers = {".svg": lambda: self.svg, ".pdf": lambda: self.pdf, ".png": self.png}
        return save_as(self, path, own, column=column, font=font)

    def at(self, measure: Measure, width: float) -> Drawing:
        """Laid out at a width, where it can be; else as it is."""
        return self.layout(measure) if self.within is None else self.within(measure, width)

    def sheet(self, column: Column | None = None, font: Font | None = None) -> Drawing:
        """Laid out for a paper: as wide as its column, letters as small as in print, and in the middle where there is
        room left. A figure that is wider by nature is made smaller as a whole."""
        face: Font = font or "sans"
        measure = _asking(partial(fonts.measure, font=face))
        if column is None:
            return replace(self.layout(measure), font=face)
        wide = 96 * COLUMNS[column]
        drawing = self.at(measure, wide / PRINT + 2 * TRIM)
        scale = min(PRINT, wide / (drawing.width - 2 * TRIM))
        room, height = wide / scale, drawing.height - 2 * TRIM
        centred = drawing.moved((room - drawing.width) / 2, -TRIM)
        return replace(drawing, width=room, height=height, shapes=centred, scale=scale, font=face)

    def on_paper(self, kind: str, column: Column | None = None, font: Font | None = None) -> str | bytes:
        """A file for a paper, by its suffix. Needs the extra `viz`."""
        drawing = self.sheet(column, font)
        if kind == ".svg":
            return to_svg(drawing, outlined=True)
        return canvas.to_pdf(drawing) if kind == ".pdf" else canvas.to_png(drawing)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Figure: {self.drawing.title}>"


def _asking(measure: Measure) -> Measure:
    """The same widths, as long as somebody waits for the figure: laying out a long text is most of the work."""

    def measured(text: str, size: float = 12.0, bold: bool = False) -> float:
        cancel.check()
        return measure(text, size, bold)

    return measured


def pile(parts: Sequence[Figure]) -> Figure:
    """Figures under each other, without a gap."""
    return Figure(
        lambda measure: stacked([part.layout(measure) for part in parts], gap=0),
        lambda measure, room: stacked([part.at(measure, room) for part in parts], gap=0),
    )


def figure_of(kind: type) -> Callable[[Callable[..., Figure]], Callable[..., Figure]]:
    """Enter the decorated function as the one whose figure stands for results of type `kind`: svg, pdf and png."""

    def enter(function: Callable[[Any], Figure]) -> Callable[[Any], Figure]:
        draws(kind, "figure")(function)
        draws(kind, "svg")(lambda result: function(result).svg)
        draws(kind, "pdf")(lambda result: function(result).pdf)
        draws(kind, "png")(lambda result: function(result).png())
        return function

    return enter


draws(Figure, "figure")(lambda figure: figure)
