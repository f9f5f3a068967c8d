"""Attribution graphs: as text, as a picture of layers over tokens, and as a page to point at."""

from __future__ import annotations

import html

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text as RichText

from whence.results import AttributionGraph, Edge
from whence.results.percents import percent
from whence.results.showing import draws
from whence.viz.axes import MARGIN, minus, signed
from whence.viz.cards import Card, cards, copies
from whence.viz.colour import blend, contrast_text, scale_of, shade
from whence.viz.drawing import FAINT, HAIR, Dot, Drawing, Line, Polyline, Shape, Text
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, clipped
from whence.viz.passages import named
from whence.viz.report import SCRIPTS, document
from whence.viz.tabular import Grid, latex
from whence.viz.terminal import printable
from whence.viz.token_text import legend
from whence.viz.verdicts import verdict

__all__ = ["fragment", "graph_picture", "page", "plain", "render", "table_of", "tex"]

LISTED = 20
"""Edges in the table of a page."""
TOP = 12
"""Edges that a terminal lists."""
ROW, LARGEST = 26.0, 1100.0
"""Pixels between two rows; of all rows together at most, and of all tokens."""
WIDEST = 6.0
"""Pixels of the strongest edge."""


def heading(graph: AttributionGraph) -> str:
    rows, tokens = graph.relevance.shape
    return printable(
        f"explained: {graph.target} = {graph.target_score:+.4f}   method: {graph.method}   "
        f"{rows - 1} layers × {tokens} tokens, {len(graph.edges)} edges"
    )


def said(graph: AttributionGraph, edge: Edge) -> tuple[str, str, str]:
    """Weight, where it goes, and by way of what."""
    from_, to = named(graph.tokens[edge.source]), named(graph.tokens[edge.target])
    way = f"{from_} → {to}" if edge.source != edge.target else from_
    return f"{edge.weight:+.4f}", printable(way), f"layer {edge.layer}, {edge.by}"


def note(graph: AttributionGraph) -> str:
    kept = f"{percent(min(graph.kept), 0)} of what each layer carries, or more" if graph.kept else "everything"
    return f"shown: {kept}"


@draws(AttributionGraph, "txt")
def plain(graph: AttributionGraph) -> str:
    """The strongest edges between tokens, one a line."""
    return "\n".join([heading(graph), *("\t".join(said(graph, e)) for e in graph.top(TOP)), note(graph)])


@draws(AttributionGraph, "terminal")
def render(graph: AttributionGraph) -> Group:
    """The text coloured by what the first block reads, and the strongest edges between tokens."""
    scores = graph.relevance[0]
    full, text = scale_of(scores), RichText()
    for name, score in zip(graph.tokens, scores, strict=True):
        red, green, blue = ground = blend(float(score), full)
        text.append(printable(name), style=f"{contrast_text(ground)} on rgb({red},{green},{blue})")
        text.append(" ")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for edge in graph.top(TOP):
        table.add_row(*said(graph, edge))
    return Group(RichText(heading(graph), style="bold"), text, RichText(""), table, RichText(note(graph), style="dim"))


@draws(AttributionGraph, "notebook")
def fragment(graph: AttributionGraph) -> str:
    return graph_picture(graph).svg


# -- the picture --------------------------------------------------------------------------------------------------


@figure_of(AttributionGraph)
def graph_picture(graph: AttributionGraph) -> Figure:
    """Tokens from left to right, layers from bottom to top; lines are edges, as wide as they are strong."""
    return Figure(lambda measure: _drawn(graph, measure), lambda measure, room: _drawn(graph, measure, room))


def _drawn(graph: AttributionGraph, measure: Measure, room: float = LARGEST + 78 + MARGIN) -> Drawing:
    rows, tokens = graph.relevance.shape
    step = min(ROW * 2, max(ROW, 220 / rows), LARGEST / max(rows - 1, 1))
    wide = min(96.0, max(7.0, (room - 58 - 2 * MARGIN) / tokens))
    size = min(11.0, max(6.0, wide * 0.8))
    names = [clipped(named(name), 110, measure, size) for name in graph.tokens]
    upright = all(measure(name, size, False) <= wide - 4 for name in names)
    below = size + 8 if upright else max(measure(name, size, False) for name in names) + 12
    left, above = MARGIN + 58, MARGIN + 34
    bottom = above + step * (rows - 1)

    def at(row: int, token: int) -> tuple[float, float]:
        return left + wide * (token + 0.5), bottom - step * row

    width = max(left + wide * tokens + MARGIN, min(room, 420.0))
    title = clipped(f"{graph.target} = {signed(graph.target_score)}", width - 2 * MARGIN, measure, 14, True)
    shapes: list[Shape] = [Text(MARGIN, MARGIN + 13, title, 14, bold=True)]
    for row in range(rows):
        y = bottom - step * row
        shapes.append(Line(left, y, left + wide * tokens, y, HAIR, 0.6))
        if row == 0 or rows <= 14 or row % 5 == 1:
            shapes.append(Text(left - 8, y + 3.5, "input" if row == 0 else f"layer {row - 1}", 9, FAINT, anchor="end"))
    full = max((abs(e.weight) for e in graph.edges), default=1.0)
    for e in reversed(graph.edges):  # the strongest on top
        share = float(np.sqrt(abs(e.weight) / full))  # else the last layer's would hide all others
        colour = shade(max(0.3, share) * (1 if e.weight > 0 else -1), 1.0)
        line = (at(e.layer, e.source), at(e.layer + 1, e.target))
        shapes.append(Polyline(line, colour, 0.5 + (WIDEST - 0.5) * share, title=" · ".join(said(graph, e))))
    used = {(e.layer, e.source) for e in graph.edges} | {(e.layer + 1, e.target) for e in graph.edges}
    largest = scale_of(graph.relevance)
    for row, token in sorted(used):
        score = float(graph.relevance[row, token])
        radius = 1.8 + min(wide / 2, 5.0) * np.sqrt(abs(score) / largest)
        x, y = at(row, token)
        shapes.append(Dot(x, y, radius, "#57606a", 0.35))
        shapes.append(Dot(x, y, radius - 0.7, shade(score, largest), title=f"{graph.named(row, token)} {score:+.4f}"))
    for token, name in enumerate(names):
        x, y = at(0, token)
        shapes.append(
            Text(x, y + size + 8, name, size, anchor="middle")
            if upright
            else Text(x + size * 0.35, y + 12, name, size, anchor="end", rotate=-90)
        )
    strip, _ = legend(full, measure)
    shapes += [shape.moved(left, bottom + below + 14) for shape in strip]
    return Drawing(width, bottom + below + 34 + MARGIN, tuple(shapes), f"{title} by {graph.method}")


def table_of(graph: AttributionGraph) -> Grid:
    """The strongest edges between tokens, in numbers."""
    rows = [
        (str(e.layer), e.by, named(graph.tokens[e.source]), named(graph.tokens[e.target]), f"{e.weight:+.4f}")
        for e in graph.top(LISTED)
    ]
    heads = ("layer", "through", "from", "to", "relevance")
    return Grid.of("The strongest edges", heads, rows, words=frozenset({1, 2, 3}))


@draws(AttributionGraph, "tex")
def tex(graph: AttributionGraph) -> str:
    return latex(table_of(graph))


# -- the page -----------------------------------------------------------------------------------------------------


@draws(AttributionGraph, "html")
def page(graph: AttributionGraph) -> str:
    """The picture to point at: a node shows what came into it and what it gave."""
    title = minus(f"{graph.target} = {graph.target_score:+.3f}")
    parts = [Card("The strongest edges", (table_of(graph),))]
    return document(
        title=title,
        verdict=verdict(graph),
        body=f'<div id="whence-graph"><noscript><pre>{html.escape(plain(graph))}</pre></noscript></div>{cards(parts)}',
        data={
            "copies": copies(parts),
            "tokens": [named(name) for name in graph.tokens],
            "relevance": [[float(f"{v:.5g}") for v in row] for row in graph.relevance],
            "layers": list(graph.layers),
            "edges": [[*e[:4], float(f"{e.weight:.5g}")] for e in graph.edges],
            "kept": min(graph.kept, default=1.0),
            "method": graph.method,
            "options": {},
            "stamp": graph.stamp,
            "target": graph.target,
        },
        scripts=(*SCRIPTS, "graph.js", "sorting.js"),
        styles=("graph.css",),
    )
