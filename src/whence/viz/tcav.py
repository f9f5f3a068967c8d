"""TCAV results as a table for terminals and as bars per layer (SVG, HTML), drawn without any plotting library."""

from __future__ import annotations

import html
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from whence.results.drawing import draws
from whence.results.tcav import TCAV, LayerScore

__all__ = ["fragment", "page", "plain", "svg", "terminal"]

FOR, AGAINST, UNSURE = "#e66101", "#2166ac", "#9aa0a6"
HEIGHT, TOP, BOTTOM, LEFT, STEP, BAR = 320, 46, 62, 52, 64, 34
COLUMNS = ("layer", "TCAV", "std", "95% interval", "chance", "p", "p corr.", "", "CAV acc.", "magnitude")


@draws(TCAV, "svg")
def svg(result: TCAV) -> str:
    """Bars with confidence intervals, a grey box for chance (mean ± std), stars where the difference is significant."""
    width = LEFT + STEP * max(len(result.layers), 5) + 16
    marks = "".join(_column(layer, LEFT + STEP * n + STEP / 2) for n, layer in enumerate(result.layers))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
        f'font-family="system-ui,sans-serif" font-size="12" fill="currentColor" role="img">'
        f"<title>{html.escape(result.title)}</title>{_axis(width)}{marks}"
        f'<text x="{LEFT}" y="{HEIGHT - 8}" opacity=".7">layer (below: held-out accuracy of its concept vectors)</text>'
        f'<text x="14" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2})">TCAV score</text>'
        f'<text x="{LEFT}" y="18" font-weight="600">{html.escape(result.title)}</text></svg>'
    )


def _y(score: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * score, 2)


def _axis(width: int) -> str:
    lines = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        dash = ' stroke-dasharray="4 3"' if tick == 0.5 else ""
        lines.append(
            f'<line x1="{LEFT}" x2="{width - 8}" y1="{_y(tick)}" y2="{_y(tick)}" stroke="currentColor" '
            f'opacity="{0.5 if tick in (0, 0.5) else 0.15}"{dash}/>'
            f'<text x="{LEFT - 6}" y="{_y(tick) + 4}" text-anchor="end">{tick:g}</text>'
        )
    return "".join(lines)


def _column(layer: LayerScore, x: float) -> str:
    colour = UNSURE if not layer.significant else FOR if layer.score >= layer.chance_score else AGAINST
    low, high = (_y(v) for v in layer.interval)
    up, down = _y(min(1.0, layer.chance_score + layer.chance_std)), _y(max(0.0, layer.chance_score - layer.chance_std))
    stars = layer.stars or "n.s."
    tip = html.escape(
        f"layer {layer.layer}: {layer.score:.3f} (95% {layer.interval[0]:.3f} to {layer.interval[1]:.3f}), "
        f"chance {layer.chance_score:.3f} ± {layer.chance_std:.3f}, corrected p {_p(layer.p_corrected)}"
    )
    name = layer.label if len(layer.label) <= 9 else "…" + layer.label[-8:]
    return (
        f"<g><title>{tip}</title>"
        f'<rect x="{x - BAR / 2}" y="{_y(layer.score)}" width="{BAR}" height="{_y(0) - _y(layer.score):.2f}" '
        f'fill="{colour}"/>'
        f'<rect x="{x + BAR / 2 + 2}" y="{up}" width="8" height="{max(down - up, 1):.2f}" fill="currentColor" '
        f'opacity=".25"/><line x1="{x + BAR / 2 + 2}" x2="{x + BAR / 2 + 10}" y1="{_y(layer.chance_score)}" '
        f'y2="{_y(layer.chance_score)}" stroke="currentColor"/>'
        f'<path d="M{x} {low}V{high}M{x - 6} {low}h12M{x - 6} {high}h12" stroke="currentColor" fill="none"/>'
        f'<text x="{x}" y="{min(high, _y(layer.score)) - 6}" text-anchor="middle">{stars}</text>'
        f'<text x="{x}" y="{_y(0) + 17}" text-anchor="middle">{html.escape(name)}</text>'
        f'<text x="{x}" y="{_y(0) + 32}" text-anchor="middle" opacity=".7">{layer.accuracy:.2f}</text></g>'
    )


@draws(TCAV, "notebook")
def fragment(result: TCAV) -> str:
    """The plot and the table, in one <div>."""
    head = "".join(f"<th>{html.escape(c)}</th>" for c in COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(layer)) + "</tr>" for layer in result.layers
    )
    notes = "".join(f"<p>{html.escape(line)}</p>" for line in (result.summary, *_notes(result)))
    return (
        f'<div style="font-family:system-ui,sans-serif">{svg(result)}'
        f'<table style="border-spacing:1em .2em;text-align:right"><tr>{head}</tr>{rows}</table>{notes}'
        "<p>Grey boxes: chance, mean ± standard deviation of vectors between random sets. Grey bars (n.s.) can't "
        "be told from chance.</p></div>"
    )


@draws(TCAV, "html")
def page(result: TCAV) -> str:
    """A file that needs nothing else."""
    facts = "".join(
        f"<li>{html.escape(f'{k}: {v}')}</li>" for k, v in {**result.provenance, "seed": result.seed}.items()
    )
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
    lines: list[Any] = [Text(result.title, style="bold"), table, Text(result.summary, style="dim")]
    return Group(*lines, *(Text(note, style="yellow") for note in _notes(result)))


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
