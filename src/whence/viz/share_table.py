"""Citations as a figure: a row for each statement, a column for each document and for what is none."""

from __future__ import annotations

import numpy as np

from whence.results import Citations
from whence.results.percents import percent
from whence.viz.axes import MARGIN
from whence.viz.colour import blend, contrast_text, shade
from whence.viz.drawing import FAINT, HAIR, Drawing, Line, Rect, Shape, Text
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, clipped, wrapped

__all__ = ["share_table"]

WORDS, WIDE, HIGH = 300.0, 78.0, 34.0
"""Pixels: room for a statement, a column, a row."""
TURNED = 64.0
"""Pixels of a column under which its name stands upright."""
LEAST = 38.0
"""Pixels of a column that can still be read."""


@figure_of(Citations)
def share_table(result: Citations) -> Figure:
    """What share of each statement came from where; the last row is the whole answer."""
    return Figure(lambda measure: _drawn(result, measure), lambda measure, room: _drawn(result, measure, room))


def _drawn(result: Citations, measure: Measure, room: float = 0.0) -> Drawing:
    names = [*(f"[{n}] {name}" for n, name in enumerate(result.names, 1)), *result.rest]
    rows = [(one.text, np.array([*one.documents, *one.rest.values()])) for one in result.statements]
    rows.append(("the answer", np.array([*result.documents, *result.rest.values()])))
    wide, words_wide = WIDE, WORDS
    if room:  # a column of a paper: the numbers have what they need, the words the rest
        wide = min(WIDE, max(LEAST, (room - 2 * MARGIN - 12) * 0.62 / len(names)))
        words_wide = max(LEAST, room - 2 * MARGIN - 12 - wide * len(names))
    left = MARGIN + words_wide + 12
    width = left + wide * len(names) + MARGIN
    title = clipped(result.question, width - 2 * MARGIN, measure, 14, True)
    shapes: list[Shape] = [Text(MARGIN, MARGIN + 13, title, 14, bold=True)]
    turned = wide < TURNED
    heads = [[clipped(name, 90, measure, 10)] if turned else wrapped(name, wide - 8, measure, 10)[:3] for name in names]
    tall = max(measure(name, 10, False) for (name, *_) in heads) if turned else 13.0 * max(map(len, heads))
    top = MARGIN + 34 + tall
    for n, lines in enumerate(heads):
        if turned:
            shapes.append(Text(left + wide * (n + 0.5) + 3.5, top - 8, lines[0], 10, FAINT, rotate=-90))
            continue
        for k, line in enumerate(reversed(lines)):
            text = clipped(line, wide - 8, measure, 10)
            shapes.append(Text(left + wide * (n + 0.5), top - 8 - 13 * k, text, 10, FAINT, "middle"))
    for n, (words, shares) in enumerate(rows):
        y, is_last = top + HIGH * n, n == len(rows) - 1
        shown = clipped(" ".join(words.split()), words_wide, measure, 12, is_last)
        shapes.append(Text(MARGIN, y + HIGH / 2 + 4, shown, 12, bold=is_last, title=words))
        for k, share in enumerate(shares.tolist()):
            x = left + wide * k
            shapes.append(
                Rect(x + 1, y + 1, wide - 2, HIGH - 2, shade(share, 1.0), 4, title=f"{names[k]}: {percent(share, 0)}")
            )
            ink = contrast_text(blend(share, 1.0))
            shapes.append(Text(x + wide / 2, y + HIGH / 2 + 4, percent(share, 0), 12, ink, "middle", is_last))
    y = top + HIGH * (len(rows) - 1)
    shapes.append(Line(MARGIN, y, width - MARGIN, y, HAIR))
    return Drawing(width, top + HIGH * len(rows) + MARGIN, tuple(shapes), f"shares of {result.question}")
