"""Citations as a figure: a row for each statement, a column for each document and for what is none."""

from __future__ import annotations

import numpy as np

from whence.results import Citations
from whence.viz.axes import MARGIN
from whence.viz.colour import blend, contrast_text, shade
from whence.viz.drawing import FAINT, HAIR, Drawing, Line, Rect, Shape, Text
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, clipped, wrapped

__all__ = ["share_table"]

WORDS, WIDE, HIGH = 300.0, 78.0, 34.0
"""Pixels: room for a statement, a column, a row."""


@figure_of(Citations)
def share_table(result: Citations) -> Figure:
    """What share of each statement came from where; the last row is the whole answer."""
    return Figure(lambda measure: _drawn(result, measure))


def _drawn(result: Citations, measure: Measure) -> Drawing:
    names = [*(f"[{n}] {name}" for n, name in enumerate(result.names, 1)), *result.rest]
    rows = [(one.text, np.array([*one.documents, *one.rest.values()])) for one in result.statements]
    rows.append(("the answer", np.array([*result.documents, *result.rest.values()])))
    left, width = MARGIN + WORDS + 12, MARGIN + WORDS + 12 + WIDE * len(names) + MARGIN
    title = clipped(result.question, width - 2 * MARGIN, measure, 14, True)
    shapes: list[Shape] = [Text(MARGIN, MARGIN + 13, title, 14, bold=True)]
    heads = [wrapped(name, WIDE - 8, measure, 10)[:3] for name in names]
    top = MARGIN + 34 + 13 * max(map(len, heads))
    for n, lines in enumerate(heads):
        for k, line in enumerate(reversed(lines)):
            text = clipped(line, WIDE - 8, measure, 10)
            shapes.append(Text(left + WIDE * (n + 0.5), top - 8 - 13 * k, text, 10, FAINT, "middle"))
    for n, (words, shares) in enumerate(rows):
        y, is_last = top + HIGH * n, n == len(rows) - 1
        shown = clipped(" ".join(words.split()), WORDS, measure, 12, is_last)
        shapes.append(Text(MARGIN, y + HIGH / 2 + 4, shown, 12, bold=is_last, title=words))
        for k, share in enumerate(shares.tolist()):
            x = left + WIDE * k
            shapes.append(
                Rect(x + 1, y + 1, WIDE - 2, HIGH - 2, shade(share, 1.0), 4, title=f"{names[k]}: {share:.0%}")
            )
            ink = contrast_text(blend(share, 1.0))
            shapes.append(Text(x + WIDE / 2, y + HIGH / 2 + 4, f"{share:.0%}", 12, ink, "middle", is_last))
    y = top + HIGH * (len(rows) - 1)
    shapes.append(Line(MARGIN, y, width - MARGIN, y, HAIR))
    return Drawing(width, top + HIGH * len(rows) + MARGIN, tuple(shapes), f"shares of {result.question}")
