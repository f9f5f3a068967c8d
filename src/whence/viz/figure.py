"""A figure: what users hold, look at in a notebook, and save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence import cancel
from whence.results.showing import draws, save_as
from whence.viz import canvas, fonts, metrics
from whence.viz.drawing import Drawing
from whence.viz.metrics import Measure
from whence.viz.svg import to_svg

__all__ = ["Figure", "figure_of"]


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture that can still be laid out: each format breaks lines with the widths of its own font."""

    layout: Callable[[Measure], Drawing]

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

    def save(self, path: str | Path) -> Path:
        """Write to `path`; the suffix decides: .svg, .pdf or .png."""
        return save_as(self, path, {".svg": lambda: self.svg, ".pdf": lambda: self.pdf, ".png": self.png})

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


def figure_of(kind: type) -> Callable[[Callable[..., Figure]], Callable[..., Figure]]:
    """Enter the decorated function as the one whose figure stands for results of type `kind`: svg, pdf and png."""

    def enter(function: Callable[[Any], Figure]) -> Callable[[Any], Figure]:
        draws(kind, "svg")(lambda result: function(result).svg)
        draws(kind, "pdf")(lambda result: function(result).pdf)
        draws(kind, "png")(lambda result: function(result).png())
        return function

    return enter
