"""Explanations of images: heat over the greyscale original, the original beside it, several side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from whence.errors import InputError
from whence.results import Comparison, Explanation
from whence.results.percents import percent
from whence.viz.axes import minus
from whence.viz.colour import heat, scale_of
from whence.viz.drawing import FAINT, INK, Drawing, Raster, Rect, Shape, Text
from whence.viz.figure import Figure
from whence.viz.metrics import Measure, clipped, wrapped
from whence.viz.token_text import legend

__all__ = ["overlay", "panels"]

MARGIN, SIDE, GAP = 22.0, 224.0, 18.0
WIDTH = 960.0
"""Pixels of a row of pictures at most."""
DEPTH = 0.45
"""How dark black pixels of the original show through the heat."""


def overlay(
    exp: Explanation, *, smooth: bool = False, original: bool = True, scale: float | None = None, side: float = SIDE
) -> Figure:
    """Heat over the greyscale image, with sharp patch edges or smooth, and the original beside it."""

    def layout(measure: Measure, width: float = WIDTH) -> Drawing:
        count = 2 if original and exp.image is not None else 1
        own = min(side, (width - 2 * MARGIN + GAP) / count - GAP)
        return _panels([exp], smooth, original, scale, own, measure, _title(exp), _notes(exp), width)

    return Figure(layout, layout)


def panels(
    results: Comparison | Sequence[Explanation],
    *,
    smooth: bool = False,
    original: bool = True,
    scale: Literal["own", "shared"] | float = "own",
    side: float = 150.0,
) -> Figure:
    """One picture per explanation of an image, by method and target, after the original."""
    found = list(results)
    if not found:
        raise InputError("there is nothing to draw: pass at least one explanation")
    if scale == "shared":
        scale = scale_of(np.concatenate([exp.scores.reshape(-1) for exp in found]))
    given = None if scale == "own" else float(scale)
    targets, methods = (list(dict.fromkeys(getattr(exp, n) for exp in found)) for n in ("target", "method"))
    guess = found[0].prediction.label
    title = f"by {methods[0]}" if len(methods) == 1 and len(targets) > 1 else f"target: {', '.join(targets)}"
    title += f"   ·   predicted: {guess}" if guess else ""

    def layout(measure: Measure, width: float = WIDTH) -> Drawing:
        least = (width - 2 * MARGIN + GAP) / 3 - GAP  # three to a row of a column at least
        return _panels(found, smooth, original, given, min(side, least), measure, title, [], width)

    return Figure(layout, layout)


def _title(exp: Explanation) -> str:
    score = minus(f"  {exp.target_score:+.4g}") if np.isfinite(exp.target_score) else ""
    share = f" {percent(exp.prediction.probabilities[0], 1)}" if exp.prediction.probabilities else ""
    guess = f"   ·   predicted: {exp.prediction.label}{share}" if exp.prediction.labels else ""
    return f"{exp.target or 'target'}{score}{guess}"


def _notes(exp: Explanation) -> list[str]:
    notes = [minus(f"left out: {exp.left_out:+.4g}")] if exp.left_out else []
    if exp.parts and exp.parts[0].kind == "frame":
        tones = ", low tones below" if len(exp.scores) > 1 else ""
        notes.append(f"from left to right: 0 to {exp.times[-1]:.2f} s{tones}")
    return notes + ([minus(f"receipt: {exp.conservation}")] if exp.conservation else [])


def _panels(
    found: Sequence[Explanation],
    smooth: bool,
    original: bool,
    scale: float | None,
    side: float,
    measure: Measure,
    title: str,
    notes: list[str],
    widest: float,
) -> Drawing:
    for exp in found:
        if not exp.is_image:
            raise InputError("this is no explanation of an image: use whence.viz.tokens(exp)")
    first = found[0]
    high = side * _aspect(first)
    cells: list[tuple[str, str, np.ndarray, bool, Explanation]] = []
    if original and first.image is not None:
        cells.append(("original", "", first.image, first.image.shape[1] > 2 * side, first))
    several = len({exp.target for exp in found}) > 1
    alone = several and len({exp.method for exp in found}) == 1
    for exp in found:
        own = scale_of(exp.scores) if scale is None else scale
        spread = f"±{own:.2g}" if scale is None and len(found) > 1 else ""
        name, note = (exp.target, spread) if alone else (exp.method, exp.target if several else spread)
        cells.append((name, note, _veiled(exp, own, smooth, side), smooth, exp))
    columns = min(len(cells), max(1, int((widest - 2 * MARGIN + GAP + 0.5) // (side + GAP))))
    columns = math.ceil(len(cells) / math.ceil(len(cells) / columns))
    shared = scale if scale is not None else scale_of(first.scores) if len(found) == 1 else None
    strip, strip_width = legend(shared, measure)
    width = max(columns * (side + GAP) - GAP, strip_width, 300.0)
    lines = wrapped(title, width, measure, 14)
    shapes: list[Shape] = [Text(0, 13 + 18 * n, line, 14, bold=True) for n, line in enumerate(lines)]
    top = 18.0 * len(lines) + 10
    for n, (name, note, pixels, fine, exp) in enumerate(cells):
        x, y = (n % columns) * (side + GAP), top + (n // columns) * (high + 44)
        shown = clipped(name, side, measure, 12)
        shapes.append(Text(x, y + 12, shown, 12, bold=bool(n) or not original))
        rest = side - measure(shown, 12, True) - 10
        if note and rest > 20:
            shapes.append(Text(x + side, y + 12, clipped(note, rest, measure, 10), 10, FAINT, "end"))
        # a hair of grey around it: white patches at the edge must not dissolve in the page
        shapes.append(Rect(x - 1, y + 19, side + 2, high + 2, "#d8dee4"))
        shapes.append(Raster(x, y + 20, side, high, pixels, fine))
        shapes += [line.moved(x, y + 20) for line in _boxed(exp, side, high)]
    top += math.ceil(len(cells) / columns) * (high + 44) - 6
    shapes += [shape.moved(0, top) for shape in strip]
    foot = [line for note in notes for line in wrapped(note, width, measure, 10)]
    if shared is None:
        foot = ["each panel on its own scale", *foot]
    shapes += [Text(0, top + 28 + 14 * n, line, 10, FAINT) for n, line in enumerate(foot)]
    top += 14 + (14 * len(foot) + 4 if foot else 0)
    placed = tuple(shape.moved(MARGIN, MARGIN) for shape in shapes)
    return Drawing(width + 2 * MARGIN, top + 2 * MARGIN, placed, f"{title} by {', '.join(e.method for e in found)}")


def _boxed(exp: Explanation, width: float, height: float) -> list[Rect]:
    """The box that is explained, as four lines: dark, with a light one around for dark pictures."""
    if exp.box is None or exp.image is None:
        return []
    tall, wide = exp.image.shape[:2]
    left, right = (width * v / wide for v in (exp.box.left, exp.box.right))
    top, bottom = (height * v / tall for v in (exp.box.top, exp.box.bottom))
    lines = []
    for thick, colour in ((3.0, "#ffffff"), (1.4, INK)):
        half = thick / 2
        across, down = right - left + thick, bottom - top + thick
        lines += [Rect(left - half, v - half, across, thick, colour) for v in (top, bottom)]
        lines += [Rect(v - half, top - half, thick, down, colour) for v in (left, right)]
    return lines


def _aspect(exp: Explanation) -> float:
    shape = exp.image.shape if exp.image is not None else exp.scores.shape
    return float(min(max(shape[0] / shape[1], 0.25), 4.0))


def _veiled(exp: Explanation, scale: float, smooth: bool, side: float) -> np.ndarray:
    """Heat over the greyscale image: multiplied, so that where there is none the image stays, only paler."""
    rows, columns = exp.scores.shape
    colours = heat(exp.scores, scale)
    if exp.image is None:
        return colours
    grey = exp.image[..., :3].astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    height, width = grey.shape
    # as many pixels as the picture has, and whole patches at least
    tall, wide = max(height, rows * math.ceil(side / columns / 2)), max(width, columns * math.ceil(side / columns / 2))
    warm = Raster(0, 0, wide, tall, colours, smooth).at(wide, tall).astype(np.float64)
    strength = np.rint(255 * np.clip(np.abs(np.nan_to_num(exp.scores)) / scale, 0, 1)).astype(np.uint8)
    cover = Raster(0, 0, wide, tall, strength, smooth).at(wide, tall)[..., None] / 255
    ground = Raster(0, 0, wide, tall, np.rint(grey).astype(np.uint8)).at(wide, tall)[..., None] / 255
    # strong colours stay those of the legend: the stronger the heat, the less shows through
    return np.rint(warm * (1 - DEPTH * (1 - 0.8 * cover) * (1 - ground))).astype(np.uint8)
