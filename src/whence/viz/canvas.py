"""Drawings as PDF and PNG, through matplotlib's renderers."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from whence import cancel
from whence.errors import MissingExtraError
from whence.viz import fonts
from whence.viz.drawing import Dot, Drawing, Line, Polygon, Polyline, Raster, Rect, Text

__all__ = ["to_pdf", "to_png"]

LARGEST = 20e6
"""Pixels of a PNG beyond which its scale is lowered; a side has less than 65,000, matplotlib's limit."""

FINE = 600 / 96
"""Pixels to 1/96 inch of a figure for a paper."""
HUGE = 8e6
"""Pixels from which on a PNG makes do with 256 colours: a quarter of the size, and nobody sees it."""

_one_at_a_time = threading.Lock()
"""matplotlib's settings belong to the process: two threads would restore each other's."""


def to_png(drawing: Drawing, scale: float | None = None) -> bytes:
    """`scale` pixels to one of the drawing: 2, or what keeps a huge one drawable."""
    wide, high = (96 * side for side in drawing.size)
    fits = min(FINE if drawing.scale < 1 else 2.0, (LARGEST / (wide * high)) ** 0.5, 60_000 / max(wide, high))
    dpi = 96 * (scale or fits)
    with _canvas(drawing, dpi, "png") as canvas:
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[..., :3]  # the sheet is white: nothing shows through
    from PIL import Image, PngImagePlugin  # late: `import whence` stays light

    facts = PngImagePlugin.PngInfo()
    facts.add_itxt("Title", drawing.title)
    file = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if pixels.size > 3 * HUGE:
        image = image.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    image.save(file, "PNG", dpi=(dpi, dpi), pnginfo=facts)
    return file.getvalue()


def to_pdf(drawing: Drawing) -> bytes:
    """One page of the size of the drawing, at 96 pixels to the inch; images are three times as fine."""
    file = io.BytesIO()
    with _canvas(drawing, 288, "pdf") as canvas:
        # no date: the same figure gives the same file
        canvas.figure.savefig(file, format="pdf", dpi=288, metadata={"Title": drawing.title, "CreationDate": None})
    return file.getvalue()


@contextmanager
def _canvas(drawing: Drawing, dpi: float, kind: str) -> Iterator[Any]:
    """matplotlib's canvas with the drawing on it, and the settings it needs in force."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "viz", f"writing .{kind}") from None
    sheet = Figure(figsize=drawing.size, dpi=dpi, facecolor="white")
    sheet.add_artist(_sheet_class()(drawing))
    # hinting moves letters to whole pixels, out of their boxes
    # Type 42 are the fonts themselves; publishers refuse Type 3, matplotlib's default
    options: Any = {"text.hinting": "none", "path.simplify": False, "pdf.fonttype": 42}
    with _one_at_a_time, matplotlib.rc_context(options), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # `fonts` has said so, with the package to get
        yield FigureCanvasAgg(sheet)


@cache
def _sheet_class() -> type:
    """An artist that draws shapes with the renderer itself; made late, because its base is matplotlib's."""
    from matplotlib.artist import Artist

    class Sheet(Artist):
        def __init__(self, drawing: Drawing):
            super().__init__()
            self.drawing = drawing

        def draw(self, renderer: Any) -> None:
            pen = _Pen(renderer, self.drawing)
            for shape in self.drawing.shapes:
                cancel.check()
                pen.draw(shape)

    return Sheet


class _Pen:
    """Draws shapes. A renderer's y axis goes up, and its unit is its own."""

    def __init__(self, renderer: Any, drawing: Drawing):
        self.renderer = renderer
        self.points = 0.75 * drawing.scale  # to one pixel of the drawing
        self.unit = renderer.points_to_pixels(self.points)
        self.height = drawing.height
        self.font = drawing.font
        self.scale = drawing.scale

    def x(self, value: float) -> float:
        return float(value * self.unit)

    def y(self, value: float) -> float:
        return float((self.height - value) * self.unit)

    def draw(self, shape: Any) -> None:
        if isinstance(shape, Text):
            self._text(shape)
        elif isinstance(shape, Raster):
            self._raster(shape)
        elif isinstance(shape, Line):
            self._stroke([(shape.x1, shape.y1), (shape.x2, shape.y2)], shape)
        elif isinstance(shape, Polyline):
            self._stroke(shape.points, shape)
        elif isinstance(shape, Polygon):
            self._fill(self._path(shape.points, closed=True), shape)
        elif isinstance(shape, Rect):
            self._fill(self._rectangle(shape), shape)
        elif isinstance(shape, Dot):
            from matplotlib.path import Path

            centre = (self.x(shape.x), self.y(shape.y))
            self._fill(Path.circle(centre, shape.radius * self.unit), shape)

    def _path(self, points: Any, *, closed: bool = False) -> Any:
        from matplotlib.path import Path

        corners = [(self.x(x), self.y(y)) for x, y in points]
        return Path([*corners, corners[0]] if closed else corners, closed=closed)

    def _rectangle(self, shape: Rect) -> Any:
        if shape.radius:
            from matplotlib.patches import BoxStyle

            radius = min(shape.radius, shape.width / 2, shape.height / 2) * self.unit
            round_box = BoxStyle.Round(pad=0, rounding_size=radius)
            low = self.y(shape.y + shape.height)
            return round_box(self.x(shape.x), low, shape.width * self.unit, shape.height * self.unit, 1)
        right, low = shape.x + shape.width, shape.y + shape.height
        return self._path([(shape.x, shape.y), (right, shape.y), (right, low), (shape.x, low)], closed=True)

    def _fill(self, path: Any, shape: Any) -> None:
        from matplotlib.colors import to_rgba
        from matplotlib.transforms import IdentityTransform

        gc = self.renderer.new_gc()
        gc.set_linewidth(0)
        gc.set_alpha(shape.opacity)
        gc.set_snap(isinstance(shape, Rect) and not shape.radius)
        self.renderer.draw_path(gc, path, IdentityTransform(), to_rgba(shape.fill, shape.opacity))
        gc.restore()

    def _stroke(self, points: Any, shape: Any) -> None:
        from matplotlib.transforms import IdentityTransform

        gc = self.renderer.new_gc()
        gc.set_foreground(shape.stroke)
        gc.set_linewidth(shape.width * self.points)
        gc.set_joinstyle("round")
        if shape.dash:
            gc.set_dashes(0, [d * self.points for d in shape.dash])
        self.renderer.draw_path(gc, self._path(points), IdentityTransform(), None)
        gc.restore()

    def _text(self, shape: Text) -> None:
        from matplotlib.font_manager import FontProperties

        families, weight = list(fonts.family(shape.text, self.font)), "bold" if shape.bold else "normal"
        properties = FontProperties(family=families, size=shape.size * self.points, weight=weight)
        width = fonts.measure(shape.text, shape.size, shape.bold, self.font)
        back = {"start": 0.0, "middle": width / 2, "end": width}[shape.anchor]
        angle = np.deg2rad(shape.rotate)
        x, y = shape.x - back * np.cos(angle), shape.y - back * np.sin(angle)
        gc = self.renderer.new_gc()
        gc.set_foreground(shape.fill)
        down = y * self.unit if self.renderer.flipy() else self.y(y)  # Agg counts text, and only text, from the top
        self.renderer.draw_text(gc, self.x(x), down, shape.text, properties, -shape.rotate)
        gc.restore()

    def _raster(self, shape: Raster) -> None:
        # renderers don't stretch as we want: pixels come in the size of the device, for PDF at its own dots per inch
        fine = getattr(self.renderer, "image_dpi", 96 * self.unit / self.scale) / 96 * self.scale
        pixels = shape.at(round(shape.width * fine), round(shape.height * fine))
        opaque = np.dstack([pixels[..., :3], np.full(pixels.shape[:2], 255, np.uint8)])
        gc = self.renderer.new_gc()
        self.renderer.draw_image(gc, self.x(shape.x), self.y(shape.y + shape.height), opaque[::-1])
        gc.restore()
