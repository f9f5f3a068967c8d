"""TCAV results as a table for terminals and as bars per layer."""

from __future__ import annotations

import html
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text as RichText

from whence.results.concept_scores import TCAV, LayerScore
from whence.results.percents import percent
from whence.results.showing import draws
from whence.viz.axes import MARGIN, Frame, alike
from whence.viz.cards import Card, report
from whence.viz.drawing import FAINT, INK, Drawing, Line, Rect, Shape, Text
from whence.viz.figure import Figure, figure_of
from whence.viz.html import CARD
from whence.viz.metrics import Measure, wrapped
from whence.viz.ranking import BLUE, ORANGE
from whence.viz.tabular import Grid, latex, notebook
from whence.viz.verdicts import verdict

__all__ = ["fragment", "page", "plain", "table_of", "tcav_bars", "terminal", "tex"]

UNSURE = "#9aa0a6"
STEP, BAR = 64.0, 34.0
NARROWEST = 270.0
"""Pixels that the columns have together at least."""
WIDEST = 110.0
"""Pixels of one column at most."""
CAPTION = "layer, and the held-out accuracy of its concept vectors"
NOTE = "grey: chance, mean ± standard deviation; grey bars (n.s.) can't be told from it"
SURE = percent(0.95)
COLUMNS = ("layer", "TCAV", "std", f"{SURE} interval", "chance", "p", "p corr.", "", "CAV acc.", "magnitude")


@figure_of(TCAV)
def tcav_bars(result: TCAV) -> Figure:
    """Bars with confidence intervals, a grey box for chance (mean ± std), stars where the difference is significant."""
    return Figure(lambda measure: _bars(result, measure), lambda measure, room: _bars(result, measure, room))


def _bars(result: TCAV, measure: Measure, width: float = 0.0) -> Drawing:
    """Columns as wide as the words above and beneath them need, or as there is room for."""
    room = width - 2 * MARGIN - 52 if width else NARROWEST
    step = min(WIDEST, room / len(result.layers)) if width else max(STEP, room / len(result.layers))
    room = step * len(result.layers)
    lines = wrapped(result.title, room + 44, measure, 14, True)
    frame = Frame(MARGIN + 52, MARGIN + 18 * len(lines) + 26, room, 210)
    shapes: list[Shape] = [Text(MARGIN, MARGIN + 13 + 18 * n, t, 14, bold=True) for n, t in enumerate(lines)]
    shapes += [shape for shape in frame.grid(y="TCAV score") if getattr(shape, "y", 0) <= frame.bottom + 6]
    shapes.append(Line(frame.left, frame.y(0.5), frame.right, frame.y(0.5), FAINT, 1, (4, 3)))
    for n, layer in enumerate(result.layers):
        shapes += _column(layer, frame, frame.left + step * (n + 0.5) - 5, measure, step)
    top = frame.bottom + 54
    for size, fill, note in ((11, INK, CAPTION), (10, FAINT, NOTE)):
        for line in wrapped(note, room + 52, measure, size):
            shapes.append(Text(MARGIN, top, line, size, fill))
            top += size + 4
        top += 2
    return Drawing(frame.right + MARGIN, top - 12 + MARGIN, tuple(shapes), f"TCAV, {result.title}")


def _column(layer: LayerScore, frame: Frame, x: float, measure: Measure, step: float) -> list[Shape]:
    bar = min(BAR, step * 0.55)
    colour = UNSURE if not layer.significant else ORANGE if layer.score >= layer.chance_score else BLUE
    low, high = (frame.y(v) for v in layer.interval)
    up, down = (frame.y(layer.chance_score + way * layer.chance_std) for way in (1, -1))
    top, beside = frame.y(layer.score), x + bar / 2 + 2
    tip = (
        f"layer {layer.layer}: {layer.score:.3f} ({SURE} {layer.interval[0]:.3f} to {layer.interval[1]:.3f}), "
        f"chance {layer.chance_score:.3f} ± {layer.chance_std:.3f}, corrected p {_p(layer.p_corrected)}"
    )
    name = layer.label if measure(layer.label, 11, False) < step - 4 else "…" + layer.label[-8:]
    whiskers: list[Shape] = [Line(x, low, x, high, INK, 1.2)]
    whiskers += [Line(x - 5, y, x + 5, y, INK, 1.2) for y in (low, high)]
    return [
        Rect(x - bar / 2, top, bar, frame.bottom - top, colour, title=tip),
        Rect(beside, up, 8, max(down - up, 1), "#c4c9cf"),
        Line(beside, frame.y(layer.chance_score), beside + 8, frame.y(layer.chance_score), FAINT, 1.2),
        *whiskers,
        Text(x, min(high, top) - 6, layer.stars or "n.s.", 11, anchor="middle"),
        Text(x, frame.bottom + 17, name, 11, anchor="middle"),
        Text(x, frame.bottom + 32, f"{layer.accuracy:.2f}", 10, FAINT, "middle"),
    ]


def table_of(result: TCAV) -> Grid:
    """A row per layer; what can be told from chance stands out."""
    strong = {(r, 1) for r, layer in enumerate(result.layers) if layer.significant}
    notes = (result.summary, *_notes(result), "Stars: told from chance, after correction for all layers; n.s.: not.")
    heads = tuple(column or "sign." for column in COLUMNS)
    sizes = alike((layer.magnitude for layer in result.layers), plus=True)
    rows = [(*_cells(layer)[:-1], size) for layer, size in zip(result.layers, sizes, strict=True)]
    return Grid.of("Scores", heads, rows, words=frozenset({0, 7}), strong=frozenset(strong), notes=notes)


@draws(TCAV, "notebook")
def fragment(result: TCAV) -> str:
    """Verdict, plot and table, in one <div>."""
    return (
        f'<div style="{CARD}"><div><b>{html.escape(verdict(result))}</b></div>{tcav_bars(result).svg}'
        f"{notebook(table_of(result))}</div>"
    )


@draws(TCAV, "html")
def page(result: TCAV) -> str:
    """Verdict, plot, table, stamp."""
    return report(
        title=f"Does {result.concept} matter for {result.target}?",
        verdict=verdict(result),
        parts=[
            Card("By layer", (tcav_bars(result),)),
            Card("Scores", (table_of(result),)),
        ],
        stamp={**result.stamp, "against": result.counter, "runs": result.runs, "seed": result.seed},
    )


@draws(TCAV, "tex")
def tex(result: TCAV) -> str:
    return latex(table_of(result))


@draws(TCAV, "terminal")
def terminal(result: TCAV) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("layer", "") else "right", no_wrap=True)
    for layer in result.layers:
        table.add_row(*_cells(layer), style=None if layer.significant else "dim")
    lines: list[Any] = [RichText(result.title, style="bold"), table, RichText(result.summary, style="dim")]
    return Group(*lines, *(RichText(note, style="yellow") for note in _notes(result)))


@draws(TCAV, "txt")
def plain(result: TCAV) -> str:
    """The table with aligned columns."""
    rows = [COLUMNS, *(_cells(layer) for layer in result.layers)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(COLUMNS))]
    lines = [
        "  ".join(
            cell.ljust(width) if n in (0, 7) else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([result.title, *lines, result.summary, *_notes(result)])


def _cells(layer: LayerScore) -> tuple[str, ...]:
    return (
        layer.label,
        f"{layer.score:.3f}",
        f"{layer.std:.3f}",
        f"{layer.interval[0]:.3f} to {layer.interval[1]:.3f}",
        f"{layer.chance_score:.3f}",
        _p(layer.p_value),
        _p(layer.p_corrected),
        layer.stars or "n.s.",
        f"{layer.accuracy:.2f}",
        f"{layer.magnitude:+.3g}",
    )


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _notes(result: TCAV) -> list[str]:
    notes = [f"layer {la.label}: {la.note} (accuracy {la.accuracy:.2f})" for la in result.layers if la.note]
    if result.recognised is not None and result.recognised < 0.5:
        share = percent(result.recognised, 0)
        notes.append(f"the model puts only {share} of the examples into the class {result.target!r}")
    return notes
