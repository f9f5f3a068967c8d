"""TCAV results as a table for terminals and as bars per layer."""

from __future__ import annotations

import html
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text as RichText

from whence.results.concept_scores import TCAV, LayerScore
from whence.results.showing import draws
from whence.viz.axes import MARGIN, Frame
from whence.viz.drawing import FAINT, INK, Drawing, Line, Rect, Shape, Text
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, wrapped
from whence.viz.ranking import BLUE, ORANGE

__all__ = ["fragment", "page", "plain", "tcav_bars", "terminal"]

UNSURE = "#9aa0a6"
STEP, BAR = 64.0, 34.0
COLUMNS = ("layer", "TCAV", "std", "95% interval", "chance", "p", "p corr.", "", "CAV acc.", "magnitude")


@figure_of(TCAV)
def tcav_bars(result: TCAV) -> Figure:
    """Bars with confidence intervals, a grey box for chance (mean ± std), stars where the difference is significant."""
    return Figure(lambda measure: _bars(result, measure))


def _bars(result: TCAV, measure: Measure) -> Drawing:
    columns = max(len(result.layers), 5)
    room = STEP * columns
    lines = wrapped(result.title, room + 44, measure, 14)
    frame = Frame(MARGIN + 52, MARGIN + 18 * len(lines) + 26, room, 210)
    shapes: list[Shape] = [Text(MARGIN, MARGIN + 13 + 18 * n, t, 14, bold=True) for n, t in enumerate(lines)]
    shapes += [shape for shape in frame.grid(y="TCAV score") if getattr(shape, "y", 0) <= frame.bottom + 6]
    shapes.append(Line(frame.left, frame.y(0.5), frame.right, frame.y(0.5), FAINT, 1, (4, 3)))
    for n, layer in enumerate(result.layers):
        shapes += _column(layer, frame, frame.left + STEP * n + STEP / 2 - 5, measure)
    caption = "layer, and the held-out accuracy of its concept vectors"
    shapes.append(Text(frame.left, frame.bottom + 54, caption, 11))
    note = "grey: chance, mean ± standard deviation; grey bars (n.s.) can't be told from it"
    notes = wrapped(note, room, measure, 10)
    shapes += [Text(frame.left, frame.bottom + 70 + 14 * n, line, 10, FAINT) for n, line in enumerate(notes)]
    height = frame.bottom + 60 + 14 * len(notes) + MARGIN
    return Drawing(frame.right + MARGIN, height, tuple(shapes), f"TCAV, {result.title}")


def _column(layer: LayerScore, frame: Frame, x: float, measure: Measure) -> list[Shape]:
    colour = UNSURE if not layer.significant else ORANGE if layer.score >= layer.chance_score else BLUE
    low, high = (frame.y(v) for v in layer.interval)
    up, down = (frame.y(layer.chance_score + way * layer.chance_std) for way in (1, -1))
    top, beside = frame.y(layer.score), x + BAR / 2 + 2
    tip = (
        f"layer {layer.layer}: {layer.score:.3f} (95% {layer.interval[0]:.3f} to {layer.interval[1]:.3f}), "
        f"chance {layer.chance_score:.3f} ± {layer.chance_std:.3f}, corrected p {_p(layer.p_corrected)}"
    )
    name = layer.label if measure(layer.label, 11, False) < STEP - 4 else "…" + layer.label[-8:]
    whiskers: list[Shape] = [Line(x, low, x, high, INK, 1.2)]
    whiskers += [Line(x - 5, y, x + 5, y, INK, 1.2) for y in (low, high)]
    return [
        Rect(x - BAR / 2, top, BAR, frame.bottom - top, colour, title=tip),
        Rect(beside, up, 8, max(down - up, 1), "#c4c9cf"),
        Line(beside, frame.y(layer.chance_score), beside + 8, frame.y(layer.chance_score), FAINT, 1.2),
        *whiskers,
        Text(x, min(high, top) - 6, layer.stars or "n.s.", 11, anchor="middle"),
        Text(x, frame.bottom + 17, name, 11, anchor="middle"),
        Text(x, frame.bottom + 32, f"{layer.accuracy:.2f}", 10, FAINT, "middle"),
    ]


@draws(TCAV, "notebook")
def fragment(result: TCAV) -> str:
    """The plot and the table, in one <div>."""
    head = "".join(f"<th>{html.escape(c)}</th>" for c in COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(layer)) + "</tr>" for layer in result.layers
    )
    notes = "".join(f"<p>{html.escape(line)}</p>" for line in (result.summary, *_notes(result)))
    return (
        f'<div style="font-family:system-ui,sans-serif">{tcav_bars(result).svg}'
        f'<table style="border-spacing:1em .2em;text-align:right"><tr>{head}</tr>{rows}</table>{notes}'
        "<p>Grey boxes: chance, mean ± standard deviation of vectors between random sets. Grey bars (n.s.) can't "
        "be told from chance.</p></div>"
    )


@draws(TCAV, "html")
def page(result: TCAV) -> str:
    """A file that needs nothing else."""
    facts = "".join(f"<li>{html.escape(f'{k}: {v}')}</li>" for k, v in {**result.stamp, "seed": result.seed}.items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>TCAV, {html.escape(result.title)}</title><style>:root{{color-scheme:light dark}}"
        "body{max-width:60rem;margin:2rem auto;padding:0 1rem}svg{max-width:100%;height:auto}"
        f"ul{{opacity:.65;font:0.85em system-ui}}</style>{fragment(result)}<ul>{facts}</ul></html>"
    )


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
        notes.append(f"the model puts only {result.recognised:.0%} of the examples into the class {result.target!r}")
    return notes
