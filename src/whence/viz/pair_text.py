"""Pairs as text, in a terminal and in a notebook: both inputs in colour, and which parts of them go together."""

from __future__ import annotations

import html

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from whence.results import Pair
from whence.results.showing import draws
from whence.viz.html import CARD, sheet
from whence.viz.html import body as coloured
from whence.viz.passages import named
from whence.viz.terminal import body, printable

__all__ = ["fragment", "heading", "plain", "render", "said"]

TOP = 8
"""Pairs that are named."""


def heading(pair: Pair) -> str:
    """The similarity and how it was taken apart, on one line."""
    place = f"{pair.rank}.  " if pair.rank is not None else ""
    size = f"{len(pair.left)} × {len(pair.right)}"
    return printable(f"{place}{pair.measure} similarity = {pair.score:+.4f}   method: {pair.method}   {size}")


def said(pair: Pair) -> tuple[str, str]:
    """What is compared, in words."""
    both = (pair.left, pair.right)
    first, second = ("a picture" if side.image is not None else named(side.text or "") for side in both)
    return first, second


def notes(pair: Pair) -> list[str]:
    left_out = [f"left out: {pair.left_out:+.4f}"] if pair.left_out else []
    return [*left_out, f"receipt: {pair.conservation}"] if pair.conservation else left_out


def _strongest(pair: Pair) -> list[tuple[str, str, str]]:
    """Score and names of the strongest cells, those of zero left out."""
    found = [(i, j) for i, j in pair.strongest(TOP) if pair.matrix[i, j]]
    return [
        (f"{pair.matrix[i, j]:+.4f}", printable(named(pair.left.feature(i))), printable(named(pair.right.feature(j))))
        for i, j in found
    ]


@draws(Pair, "txt")
def plain(pair: Pair) -> str:
    """Both inputs, then one line for each of the strongest pairs: score, tab, one feature, tab, the other."""
    texts = [printable(text) for text in said(pair)]
    return "\n".join([heading(pair), *texts, *("\t".join(row) for row in _strongest(pair)), *notes(pair)])


@draws(Pair, "terminal")
def render(pair: Pair) -> Group:
    """Both inputs, coloured by what each has of the similarity, and the strongest pairs with bars."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(style="bold")
    table.add_column(style="bold")
    table.add_column()
    largest = float(np.abs(pair.matrix).max(initial=0.0)) or 1.0
    for score, one, two in _strongest(pair):
        size = round(20 * abs(float(score)) / largest)
        colour = "rgb(230,97,1)" if float(score) >= 0 else "rgb(33,102,172)"
        table.add_row(score, Text(one), Text(two), Text("█" * size, style=colour))
    shown = [Text(heading(pair), style="bold"), body(pair.left), body(pair.right), Text("")]
    return Group(*shown, table, *(Text(note, style="dim") for note in notes(pair)))


@draws(Pair, "notebook")
def fragment(pair: Pair) -> str:
    """The same as HTML."""
    rows = "".join(
        f'<tr><td style="text-align:right;opacity:.7">{score}</td><td>{html.escape(one)}</td>'
        f"<td>{html.escape(two)}</td></tr>"
        for score, one, two in _strongest(pair)
    )
    foot = "".join(f'<div style="opacity:.7;font-size:.85em">{html.escape(note)}</div>' for note in notes(pair))
    size = len(pair.left) + len(pair.right)
    sides = "".join(f"<div>{coloured(side, size)}</div>" for side in (pair.left, pair.right))
    return (
        f'<div style="{CARD}">{sheet(size)}<div><b>{html.escape(heading(pair))}</b></div>{sides}'
        f"<table>{rows}</table>{foot}</div>"
    )
