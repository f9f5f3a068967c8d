"""Traces as text, in a terminal and in a notebook: the whole in colour, and where each row came from."""

from __future__ import annotations

import html

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from whence.results import Trace
from whence.results.showing import draws
from whence.viz.colour import STEPS, blend, contrast_text, scale_of, shade
from whence.viz.html import CARD
from whence.viz.passages import WRITTEN, Cell, amounts, named, passages, strongest
from whence.viz.terminal import printable

__all__ = [
    "TOP",
    "by_side",
    "cell_score",
    "fragment",
    "heading",
    "lines",
    "plain",
    "render",
    "scale",
    "score_of",
    "screen",
    "sources",
]

TOP = 3
"""Sources that a row names."""
ROWS = 60
"""Rows that a terminal lists; files have them all."""


def heading(trace: Trace) -> str:
    """What was written, what it amounts to, and how it was explained, on one line."""
    total = f" = {trace.whole.target_score:+.4f}" if np.isfinite(trace.whole.target_score) else ""
    size = f"{len(trace)} written × {len(trace.whole)} earlier"
    return printable(f"written: {named(trace.text)}{total}   method: {trace.whole.method}   {size}")


def score_of(trace: Trace, row: int) -> str:
    return f"{trace.target_scores[row]:+.4f}" if trace.target_scores else ""


def sources(trace: Trace, row: int, most: int = TOP) -> str:
    """The strongest columns of a row, in words."""
    found = strongest(trace, trace.scores[row], most)
    return printable(" · ".join(f"{name} {score:+.2f}" for name, score in found))


def by_side(trace: Trace) -> str:
    """How much of all that was written each side has."""
    return "   ".join(f"{name}: {amount:+.4f}" for name, amount in amounts(trace, trace.whole.scores).items())


def notes(trace: Trace) -> list[str]:
    receipt = trace.whole.conservation
    return [by_side(trace), *([f"receipt: {receipt}"] if receipt else [])]


@draws(Trace, "txt")
def plain(trace: Trace) -> str:
    return lines(trace)


def lines(trace: Trace, most: int = TOP) -> str:
    """One line per row: score, tab, what was written, tab, the strongest of what stood before it."""
    rows = [
        f"{score_of(trace, n)}\t{printable(named(text))}\t{sources(trace, n, most)}"
        for n, text in enumerate(trace.written)
    ]
    return "\n".join([heading(trace), *rows, *notes(trace)])


def cell_score(cell: Cell, scores: np.ndarray) -> float:
    """What a cell has of the scores of all columns."""
    return float(scores.reshape(-1)[cell.start : cell.stop].sum(dtype=np.float64))


def scale(trace: Trace) -> float:
    """The score of the strongest cell of the whole."""
    cells = [cell for passage in passages(trace) for cell in passage.cells]
    return scale_of(np.array([cell_score(cell, trace.whole.scores) for cell in cells] or [0.0]))


@draws(Trace, "terminal")
def render(trace: Trace) -> Group:
    return screen(trace)


def screen(trace: Trace, most: int = TOP) -> Group:
    """The text coloured by the sum over all that was written, then a line for each row."""
    full, shown = scale(trace), [Text(heading(trace), style="bold")]
    for passage in passages(trace):
        shown.append(Text(f"{passage.name}:", style="dim"))
        text = Text()
        for cell in passage.cells:
            red, green, blue = ground = blend(cell_score(cell, trace.whole.scores), full)
            style = f"{contrast_text(ground)} on rgb({red},{green},{blue})"
            text.append(cell.gap, style="on rgb(255,255,255)")
            for n, line in enumerate(cell.text.split("\n")):
                text.append("\n" if n else "")
                text.append(printable(line), style=style)
        shown.append(text)
    return Group(*shown, _table(trace, most), *(Text(note, style="dim") for note in notes(trace)))


def _table(trace: Trace, most: int) -> Group:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(style="bold")
    table.add_column()
    for n, text in enumerate(trace.written[:ROWS]):
        table.add_row(score_of(trace, n), Text(printable(named(text))), Text(sources(trace, n, most)))
    rest = len(trace) - ROWS
    more = [Text(f"and {rest} more rows: save as .txt or .html", style="dim")] if rest > 0 else []
    return Group(Text(""), table, *more)


@draws(Trace, "notebook")
def fragment(trace: Trace) -> str:
    """The text coloured by the sum over all that was written; each written token says where it came from."""
    full = scale(trace)
    blocks = []
    for passage in passages(trace):
        spans = "".join(_span(trace, cell, full) for cell in passage.cells)
        name = html.escape(passage.name)
        line = "border-left:3px solid #2b5fb8;padding-left:.7em;" if passage.name == WRITTEN else "padding-left:.95em;"
        blocks.append(
            f'<div style="{line}margin:.3em 0"><div style="opacity:.65;font-size:.8em;line-height:1.4">{name}</div>'
            f'<div dir="auto" style="white-space:pre-wrap">{spans}</div></div>'
        )
    foot = "".join(f'<div style="opacity:.7;font-size:.85em">{html.escape(note)}</div>' for note in notes(trace))
    return f'<div style="{CARD}"><div><b>{html.escape(heading(trace))}</b></div>{"".join(blocks)}{foot}</div>'


def _span(trace: Trace, cell: Cell, full: float) -> str:
    score = cell_score(cell, trace.whole.scores)
    tip = f"{score:+.4g}" if cell.stop > cell.start else ""
    if cell.row is not None:
        tip = f"{tip}   from: {sources(trace, cell.row)}".strip()
    colour = shade(score, full)
    dress = ""
    if colour != "#ffffff":
        rgb = blend(round(STEPS * min(1.0, abs(score) / full)) / STEPS * (-1 if score < 0 else 1), 1.0)
        dress = f' style="background:{colour};color:{contrast_text(rgb)};border-radius:2px"'
    text = html.escape(printable(cell.text, keep="\n"))
    return f'{html.escape(cell.gap)}<span title="{html.escape(tip)}"{dress}>{text}</span>'
