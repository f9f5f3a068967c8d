"""Attention as heat maps: one head with its tokens, or all heads of chosen layers as a grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whence.errors import InputError
from whence.results.maps import AttentionMaps
from whence.results.showing import draws
from whence.viz.axes import MARGIN, number
from whence.viz.colour import FOR
from whence.viz.drawing import FAINT, Drawing, Raster, Rect, Shape, Text, stacked
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, clipped, wrapped

__all__ = ["fragment", "grid", "heat_map"]

FULL = np.array(FOR, dtype=np.float64)
"""The colour of the largest weight, as on the pages."""
SHADES = 64
"""Steps from white to dark: more can't be told apart."""
READABLE = 9.0
"""Pixels a row needs to carry its token."""
LARGEST = 480.0
LABELLED = 4
"""Maps that are shown with their tokens; more of them become a grid of small ones."""


def heat_map(
    maps: AttentionMaps,
    layer: int | Sequence[int] = 0,
    head: int | Sequence[int] | None = None,
    *,
    top: float | None = None,
) -> Figure:
    """What queries (rows) attend to among keys (columns): of one head in one layer, or of several as panels.

    `layer` and `head` may be lists; `head=None` takes the mean over the heads. White is 0 and full orange is `top`, by
    default the largest weight of each map.
    """
    layers = [layer] if isinstance(layer, int) else list(layer)
    heads: list[int | None] = [head] if head is None or isinstance(head, int) else list(head)
    chosen = [(a, b, _matrix(maps, a, b)) for a in layers for b in heads]
    if len(chosen) <= LABELLED:
        columns = len(heads) if len(heads) > 1 else 2
        return Figure(
            lambda measure: stacked([_labelled(maps, *one, top, measure) for one in chosen], columns=columns, gap=0)
        )
    return Figure(lambda measure: _grid(maps, chosen, len(heads), top, measure))


def grid(maps: AttentionMaps, layers: Sequence[int] | None = None) -> Figure:
    """Small pictures of every head: a row per layer."""
    rows = list(range(len(maps))) if layers is None else list(layers)
    chosen = [(layer, h, _matrix(maps, layer, h)) for layer in rows for h in range(len(maps[layer]))]
    most = max(len(maps[layer]) for layer in rows)
    return Figure(
        lambda measure: _grid(maps, chosen, most, None, measure),
        lambda measure, room: _grid(maps, chosen, most, None, measure, room),
    )


figure_of(AttentionMaps)(grid)


@draws(AttentionMaps, "notebook")
def fragment(maps: AttentionMaps) -> str:
    """The grid, as it stands in a notebook."""
    return grid(maps).svg


def _matrix(maps: AttentionMaps, layer: int, head: int | None) -> np.ndarray:
    if not -len(maps) <= layer < len(maps):
        raise InputError(f"there is no layer {layer}: this model has {len(maps)}, counted from 0")
    found = maps[layer]
    if head is None:
        return np.asarray(np.nan_to_num(found.mean(0)))
    if not -len(found) <= head < len(found):
        raise InputError(f"layer {layer} has no head {head}: it has {len(found)}, counted from 0")
    return np.asarray(np.nan_to_num(found[head]))


def _name(maps: AttentionMaps, layer: int, head: int | None) -> str:
    stream = f" ({maps.streams[layer]})" if maps.streams and maps.streams[layer] != "self" else ""
    which = "mean of heads" if head is None else f"head {head % len(maps[layer])}"
    return f"layer {layer % len(maps)}{stream}, {which}"


def _pixels(matrix: np.ndarray, top: float) -> np.ndarray:
    strength = np.rint(np.clip(matrix / (top or 1.0), 0, 1) * SHADES)[..., None] / SHADES
    return np.rint(255 + (FULL - 255) * strength).astype(np.uint8)


def _strongest(maps: AttentionMaps, layer: int, matrix: np.ndarray) -> str:
    query, key = maps.axes(layer)
    i, j = (int(v) for v in np.unravel_index(int(matrix.argmax()), matrix.shape))
    pair = f"{query[i]} → {key[j]}" if len(query) > i and len(key) > j else f"{i} → {j}"
    return f"strongest: {pair} {matrix[i, j]:.2f}"


def _labelled(
    maps: AttentionMaps, layer: int, head: int | None, matrix: np.ndarray, top: float | None, measure: Measure
) -> Drawing:
    """One map with its tokens on both sides, where they fit."""
    rows, columns = matrix.shape
    cell = min(26.0, LARGEST / max(rows, columns))
    wide, high = max(cell * columns, 1.0), max(cell * rows, 1.0)
    query, key = maps.axes(layer)
    named = cell >= READABLE and len(query) == rows and len(key) == columns
    size = min(11.0, cell * 0.85)
    left_names = [clipped(t.strip() or "␣", 120, measure, size) for t in query] if named else []
    top_names = [clipped(t.strip() or "␣", 120, measure, size) for t in key] if named else []
    left = MARGIN + (max((measure(t, size, False) for t in left_names), default=0) + 8 if named else 20)
    above = MARGIN + 30 + (max((measure(t, size, False) for t in top_names), default=0) + 8 if named else 18)
    full = float(matrix.max()) if top is None else top
    title = _name(maps, layer, head)
    shapes: list[Shape] = [Text(MARGIN, MARGIN + 13, title, 14, bold=True)]
    shapes.append(Rect(left - 1, above - 1, wide + 2, high + 2, "#d8dee4"))
    shapes.append(Raster(left, above, wide, high, _pixels(matrix, full), title=_strongest(maps, layer, matrix)))
    for n, name in enumerate(left_names):
        shapes.append(Text(left - 6, above + cell * n + cell / 2 + size * 0.35, name, size, anchor="end"))
    for n, name in enumerate(top_names):
        shapes.append(Text(left + cell * n + cell / 2 + size * 0.35, above - 6, name, size, rotate=-90))
    if not named:
        shapes.append(Text(left, above - 6, f"{columns} keys →", 10, FAINT))
        shapes.append(Text(left - 6, above + high, f"← {rows} queries", 10, FAINT, rotate=-90))
    bottom = above + high + 14
    strip = np.array([np.linspace(0, 1, 64)])
    shapes += [
        Text(left, bottom + 9, "0", 10, FAINT),
        Raster(left + 12, bottom + 1, 90, 8, _pixels(strip, 1.0)),
        Text(left + 108, bottom + 9, number(full), 10, FAINT),
    ]
    width = max(left + wide, left + 160, MARGIN + measure(title, 14, True)) + MARGIN
    return Drawing(width, bottom + 14 + MARGIN, tuple(shapes), f"attention, {title}; {_strongest(maps, layer, matrix)}")


def _grid(
    maps: AttentionMaps,
    chosen: Sequence[tuple[int, int | None, np.ndarray]],
    columns: int,
    top: float | None,
    measure: Measure,
    room: float = 0.0,
) -> Drawing:
    """Small maps, each named above it."""
    side, gap = (110.0 if columns <= 8 else max(36.0, 900 / columns - 10)), 10.0
    if room:
        side, gap = max(12.0, min(side, (room - 2 * MARGIN - 24 + 4) / columns - 4)), 4.0
    caption = side >= 80
    shapes: list[Shape] = []
    text = maps.text or " ".join(maps.tokens)
    width = max(columns * (side + gap) - gap, 320) + 2 * MARGIN + (0 if caption else 24)
    shapes.append(Text(MARGIN, MARGIN + 13, clipped(text, width - 2 * MARGIN, measure, 14, True), 14, bold=True))
    note = "rows are layers; queries go down, keys to the right; the strongest colour is each map's largest weight"
    lines = wrapped(note, width - 2 * MARGIN, measure, 10)
    shapes += [Text(MARGIN, MARGIN + 30 + 13 * n, line, 10, FAINT) for n, line in enumerate(lines)]
    y, x, row, last = MARGIN + 29 + 13 * len(lines), MARGIN, 0, chosen[0][0]
    for n, (layer, head, matrix) in enumerate(chosen):
        if n and (layer != last or row == columns):
            y, row = y + side + (24 if caption else 6), 0
        x = MARGIN + row * (side + gap) + (0 if caption else 24)
        if caption:
            short = f"{layer}:{'mean' if head is None else head}" if side < 100 else _name(maps, layer, head)
            shapes.append(Text(x, y + 10, clipped(short, side, measure, 10), 10, FAINT))
        elif row == 0:
            shapes.append(Text(MARGIN + 14, y + side / 2 + 4, str(layer), 10, FAINT, "end"))
        place = y + (15 if caption else 0)
        tip = f"{_name(maps, layer, head)}; {_strongest(maps, layer, matrix)}"
        full = float(matrix.max()) if top is None else top
        shapes.append(Rect(x - 0.5, place - 0.5, side + 1, side + 1, "#d8dee4"))
        shapes.append(Raster(x, place, side, side, _pixels(_small(matrix, round(side)), full), title=tip))
        last, row = layer, row + 1
    return Drawing(width, y + side + (15 if caption else 0) + MARGIN, tuple(shapes), f"attention: {text[:200]}")


def _small(matrix: np.ndarray, most: int) -> np.ndarray:
    """At most so many numbers a side: of long texts the pattern is seen, each number the largest of those it holds."""
    step = -(-max(matrix.shape) // most)
    if step == 1:
        return matrix
    rows, columns = (-(-n // step) for n in matrix.shape)
    padded = np.zeros((rows * step, columns * step), matrix.dtype)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return np.asarray(padded.reshape(rows, step, columns, step).max((1, 3)))
