"""A pair as a heat map: a row for each feature of the first input, a column for each of the second."""

from __future__ import annotations

import numpy as np

from whence.results import Explanation, Pair
from whence.viz.axes import MARGIN, minus
from whence.viz.colour import heat, scale_of
from whence.viz.drawing import FAINT, HAIR, Drawing, Raster, Rect, Shape, Text
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, clipped
from whence.viz.pair_text import heading, said
from whence.viz.passages import named
from whence.viz.token_text import legend

__all__ = ["pair_map"]

LARGEST = 720.0
"""Pixels of the longer side of the map."""
READABLE = 9.0
"""Pixels a row needs to carry its name."""


@figure_of(Pair)
def pair_map(pair: Pair) -> Figure:
    """Orange for what makes the two similar and blue against it, with what each feature has in all at the edges."""
    return Figure(lambda measure: _drawn(pair, measure))


def _drawn(pair: Pair, measure: Measure) -> Drawing:
    rows, columns = pair.matrix.shape
    cell = min(26.0, max(1.5, LARGEST / max(rows, columns)))
    wide, high = cell * columns, cell * rows
    size, has_names = min(11.0, cell * 0.85), cell >= READABLE
    down, across = (_names(side, measure, size) if has_names else [] for side in (pair.left, pair.right))
    margin = 6 + cell
    left = MARGIN + max((measure(name, size, False) for name in down), default=14.0) + 8
    above = MARGIN + 34 + max((measure(name, size, False) for name in across), default=14.0) + 8
    scale = scale_of(pair.matrix)
    strip, strip_width = legend(scale, measure)
    width = max(left + wide + margin, left + strip_width, 420.0) + MARGIN
    title = clipped(minus(heading(pair)), width - 2 * MARGIN, measure, 13, True)
    i, j = pair.strongest(1)[0]
    tip = f"strongest: {pair.left.feature(i)} × {pair.right.feature(j)} {pair.matrix[i, j]:+.4g}"
    shapes: list[Shape] = [
        Text(MARGIN, MARGIN + 12, title, 13, bold=True),
        Rect(left - 1, above - 1, wide + 2, high + 2, HAIR),
        Raster(left, above, wide, high, heat(pair.matrix, scale), title=tip),
        *_edge(left + wide + 6, above, cell, high, pair.left.scores.reshape(-1, 1)),
        *_edge(left, above + high + 6, wide, cell, pair.right.scores.reshape(1, -1)),
    ]
    for n, name in enumerate(down):
        shapes.append(Text(left - 6, above + cell * (n + 0.5) + size * 0.35, name, size, anchor="end"))
    for n, name in enumerate(across):
        shapes.append(Text(left + cell * (n + 0.5) + size * 0.35, above - 6, name, size, rotate=-90))
    if not has_names:
        shapes.append(Text(left, above - 6, f"{columns} features of the second →", 10, FAINT))
        shapes.append(Text(left - 6, above + high, f"← {rows} of the first", 10, FAINT, rotate=-90))
    bottom = above + high + margin + 12
    shapes += [shape.moved(left, bottom) for shape in strip]
    note = clipped("at the edges: each feature in all, on a scale of its own", width - left, measure, 10)
    shapes.append(Text(left, bottom + 24, note, 10, FAINT))
    seen = f"{heading(pair)}: {' and '.join(said(pair))}"
    return Drawing(width, bottom + 30 + MARGIN, tuple(shapes), seen[:300])


def _edge(x: float, y: float, width: float, height: float, scores: np.ndarray) -> list[Shape]:
    return [
        Rect(x - 1, y - 1, width + 2, height + 2, HAIR),
        Raster(x, y, width, height, heat(scores, scale_of(scores)), title="each feature in all"),
    ]


def _names(side: Explanation, measure: Measure, size: float) -> list[str]:
    return [clipped(named(side.feature(n)), 110, measure, size) for n in range(len(side))]
