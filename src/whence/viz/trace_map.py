"""A trace as a heat map: a row for each written token, a column for each token before it."""

from __future__ import annotations

from whence.results import Trace
from whence.viz.axes import MARGIN
from whence.viz.colour import heat, scale_of
from whence.viz.drawing import FAINT, HAIR, Drawing, Line, Raster, Rect, Shape, Text
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, clipped
from whence.viz.passages import named, passages
from whence.viz.token_text import legend

__all__ = ["trace_map"]

LARGEST = 900.0
"""Pixels of the longer side of the map."""
READABLE = 9.0
"""Pixels a row needs to carry its token."""


@figure_of(Trace)
def trace_map(trace: Trace) -> Figure:
    """Scores of every row, orange for what was written and blue against it. Thin lines part the sides of the prompt."""
    return Figure(lambda measure: _drawn(trace, measure))


def _drawn(trace: Trace, measure: Measure) -> Drawing:
    rows, columns = trace.scores.shape
    cell = min(22.0, max(2.0, LARGEST / max(rows, columns)))
    wide, high = cell * columns, cell * rows
    size, has_names = min(11.0, cell * 0.85), cell >= READABLE
    across = [clipped(named(trace.whole.feature(n)), 90, measure, size) for n in range(columns)] if has_names else []
    down = [clipped(named(text), 110, measure, size) for text in trace.written] if has_names else []
    left = MARGIN + max((measure(name, size, False) for name in down), default=14.0) + 8
    above = MARGIN + 30 + max((measure(name, size, False) for name in across), default=14.0) + 8
    scale = scale_of(trace.scores)
    strip, strip_width = legend(scale, measure)
    width = max(left + wide, left + strip_width, 420.0) + MARGIN
    title = clipped(f"written: {named(trace.text)}", width - 2 * MARGIN, measure, 14, True)
    shapes: list[Shape] = [
        Text(MARGIN, MARGIN + 13, title, 14, bold=True),
        Rect(left - 1, above - 1, wide + 2, high + 2, HAIR),
        Raster(left, above, wide, high, heat(trace.scores, scale), title=f"{rows} written × {columns} earlier"),
    ]
    for n, name in enumerate(down):
        shapes.append(Text(left - 6, above + cell * (n + 0.5) + size * 0.35, name, size, anchor="end"))
    for n, name in enumerate(across):
        shapes.append(Text(left + cell * (n + 0.5) + size * 0.35, above - 6, name, size, rotate=-90))
    if not has_names:
        shapes.append(Text(left, above - 6, f"{columns} earlier →", 10, FAINT))
        shapes.append(Text(left - 6, above + high, f"← {rows} written", 10, FAINT, rotate=-90))
    for edge in sorted({min(cell_.start for cell_ in p.cells) for p in passages(trace) if p.cells} - {0, columns}):
        x = left + cell * edge
        shapes.append(Line(x, above, x, above + high, "#9aa4b4", 0.8))
    shapes += [shape.moved(left, above + high + 14) for shape in strip]
    return Drawing(width, above + high + 34 + MARGIN, tuple(shapes), f"{title} by {trace.whole.method}")
