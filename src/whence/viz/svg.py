"""Drawings as SVG that stands alone: no fonts, no scripts, no style sheet, nothing to fetch.

On a page, text is text: it can be read, searched and selected, in the reader's font, fitted to the width it was laid
out for. For a paper it is outlines: programs that set papers (LaTeX through Inkscape or rsvg, Illustrator) pass over
fonts embedded as @font-face and put another in their place; outlines look the same in all of them.
"""

from __future__ import annotations

import base64
import html
import io
import itertools
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from whence import cancel
from whence.results.showing import Font
from whence.viz import fonts
from whence.viz.drawing import INK, Dot, Drawing, Line, Polygon, Polyline, Raster, Rect, Shape, Text
from whence.viz.metrics import FAMILY, is_sure, measure

__all__ = ["to_svg"]

TIP = 200
"""Letters of a tip. That of a long token stands on each of its lines."""


def to_svg(drawing: Drawing, *, outlined: bool = False) -> str:
    """One <svg> element. Neighbours of one style share a group, boxes of one colour share a path.

    `outlined`, letters are paths and the size is in inches. Needs the extra `viz`.
    """
    name, size = _escaped(drawing.title), f"{_n(drawing.width)} {_n(drawing.height)}"
    width, height = size.split()
    shapes: Iterable[Shape] = drawing.shapes
    if outlined:
        across, down = (f"{side:.4g}in" for side in drawing.size)
        body = "".join(_outlined(s, drawing.font) if isinstance(s, Text) else "".join(_body([s])) for s in shapes)
    else:
        (across, down), body = (width, height), "".join(_body(shapes))
    family = "" if outlined else f'font-family="{FAMILY}" font-size="12" '
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{across}" height="{down}" role="img" '
        f'{family}fill="{INK}" xml:space="preserve"><title>{name}</title>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{body}</svg>\n'
    )


def _outlined(shape: Text, font: Font) -> str:
    """A text as one path; what it says is its label."""
    width = fonts.measure(shape.text, shape.size, shape.bold, font)
    back = {"start": 0.0, "middle": width / 2, "end": width}[shape.anchor]
    turn = f" rotate({_n(shape.rotate)})" if shape.rotate else ""
    drawn = "".join(
        command + " ".join(f"{v:.2f}".rstrip("0").rstrip(".") for v in numbers)
        for command, numbers in fonts.outline(shape.text, shape.size, shape.bold, font)
    )
    fill = f' fill="{shape.fill}"' if shape.fill != INK else ""
    place = f"translate({shape.x:.2f} {shape.y:.2f}){turn}" + (f" translate({-back:.2f} 0)" if back else "")
    return f'<path aria-label="{_escaped(shape.text)}" role="img"{fill} transform="{place}" d="{drawn}"/>'


def _body(shapes: Iterable[Shape]) -> Iterator[str]:
    for style, group in itertools.groupby(shapes, _style):
        cancel.check()
        members = list(group)
        kind = type(members[0])
        if style and kind is Rect and not any(r.title or r.radius for r in members):  # type: ignore[union-attr]
            yield f'<path {style} d="{"".join(map(_box, members))}"/>'
        elif style and len(members) > 1:
            yield f"<g {style}>{''.join(_element(m, '') for m in members)}</g>"
        else:
            yield from (_element(m, style) for m in members)


def _style(shape: Shape) -> str:
    """What neighbours can share."""
    if isinstance(shape, Rect | Polygon | Dot):
        return f'fill="{shape.fill}"' + (f' opacity="{shape.opacity:.2g}"' if shape.opacity < 1 else "")
    if isinstance(shape, Line | Polyline):
        dash = f' stroke-dasharray="{" ".join(map(_n, shape.dash))}"' if shape.dash else ""
        return f'stroke="{shape.stroke}" stroke-width="{_n(shape.width)}" fill="none"{dash}'
    if isinstance(shape, Text):
        parts = [f'fill="{shape.fill}"'] if shape.fill != INK else []
        parts += [f'font-size="{_n(shape.size)}"'] if shape.size != 12 else []
        parts += ['font-weight="600"'] if shape.bold else []
        # in a line from right to left the end of the text is its left edge
        anchor = "end" if shape.rtl and shape.anchor == "start" else shape.anchor
        parts += [f'text-anchor="{anchor}"'] if anchor != "start" else []
        parts += ['direction="rtl"'] if shape.rtl else []
        parts += ['lengthAdjust="spacingAndGlyphs"'] if shape.width else []
        parts += ['pointer-events="none"'] if not shape.title else []  # what lies beneath has the tip
        return " ".join(parts)
    return ""


def _element(shape: Shape, style: str) -> str:
    cancel.check()
    style = f" {style}" if style else ""
    title = "" if isinstance(shape, Line) else shape.title
    title = title if len(title) <= TIP else title[: TIP - 1] + "…"
    tip = f"<title>{_escaped(title)}</title>" if title else ""
    if isinstance(shape, Text):
        return _text(shape, style, tip)
    if isinstance(shape, Rect):
        name, place = (
            "rect",
            f' x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"',
        )
        place += f' rx="{_n(shape.radius)}"' if shape.radius else ""
    elif isinstance(shape, Line):
        name, place = "path", f' d="M{_n(shape.x1)} {_n(shape.y1)}L{_n(shape.x2)} {_n(shape.y2)}"'
    elif isinstance(shape, Polyline | Polygon):
        name = "polyline" if isinstance(shape, Polyline) else "polygon"
        place = f' points="{" ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)}"'
    elif isinstance(shape, Dot):
        name, place = "circle", f' cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}"'
    else:
        name, place = "image", _image(shape)
    return f"<{name}{style}{place}>{tip}</{name}>" if tip else f"<{name}{style}{place}/>"


def _text(shape: Text, style: str, tip: str) -> str:
    x, y = _n(shape.x), _n(shape.y)
    turn = f' transform="rotate({_n(shape.rotate)} {x} {y})"' if shape.rotate else ""
    width = shape.width
    if width is None and len(shape.text) > 2 and is_sure(shape.text):
        width = measure(shape.text, shape.size, shape.bold)
    fit = f' textLength="{_n(width)}"' if width else ""
    if fit and not shape.width:
        fit += ' lengthAdjust="spacingAndGlyphs"'
    return f'<text{style} x="{x}" y="{y}"{fit}{turn}>{_escaped(shape.text)}{tip}</text>'


def _box(rect: Any) -> str:
    return f"M{_n(rect.x)} {_n(rect.y)}h{_n(rect.width)}v{_n(rect.height)}h{_n(-rect.width)}z"


def _image(raster: Raster) -> str:
    place = f' x="{_n(raster.x)}" y="{_n(raster.y)}" width="{_n(raster.width)}" height="{_n(raster.height)}"'
    # viewers smooth each in its own way: what is smooth comes smoothed
    pixels = raster.at(round(raster.width), round(raster.height)) if raster.smooth else raster.pixels
    sharp = "" if raster.smooth else ' image-rendering="pixelated"'
    return f'{place} preserveAspectRatio="none"{sharp} href="{_data_url(pixels)}"'


def _data_url(pixels: np.ndarray) -> str:
    from PIL import Image  # late: `import whence` stays light

    red, green, blue = (pixels[..., n].astype(np.uint32) for n in range(3))
    colours, places = np.unique(red << 16 | green << 8 | blue, return_inverse=True)
    image = Image.fromarray(pixels)
    if len(colours) <= 256:  # a third of the size, and the same colours
        image = Image.fromarray(places.reshape(pixels.shape[:2]).astype(np.uint8), "P")
        image.putpalette([int(c) >> shift & 255 for c in colours for shift in (16, 8, 0)])
    file = io.BytesIO()
    image.save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _n(value: float) -> str:
    """At most one digit after the point: a tenth of a pixel is seen by nobody."""
    shown = f"{value:.1f}".removesuffix(".0")
    return "0" if shown == "-0" else shown


def _escaped(text: str) -> str:
    """Safe in text and in attributes, without the characters that XML forbids."""
    return html.escape("".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs", "Cn") else c for c in text))
