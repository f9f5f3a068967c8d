"""Evaluations as a page, in a notebook, and as a table for papers."""

from __future__ import annotations

import html

from whence.results.evaluation import Evaluation
from whence.results.evaluation_files import TIED, WON, grid, heading, notes
from whence.results.showing import draws
from whence.viz.cards import Card, report
from whence.viz.evaluations import charts_of
from whence.viz.html import CARD
from whence.viz.tabular import Grid, latex, notebook
from whence.viz.verdicts import verdict

__all__ = ["fragment", "page", "table_of", "tex"]


def table_of(result: Evaluation) -> Grid:
    """A row per method, a column per metric. What has won, or can't be told from it, stands out."""
    rows = grid(result)
    strong = {(r, c) for r, row in enumerate(rows) for c, cell in enumerate(row) if cell.endswith((WON, TIED))}
    return Grid.of("Values", heading(result), rows, strong=frozenset(strong), notes=tuple(notes(result)))


@draws(Evaluation, "html")
def page(result: Evaluation) -> str:
    """Verdict, table, one chart per metric, settings."""
    stamp = {k: v for k, v in result.settings.items() if k != "metrics"} | {"examples": len(result)}
    return report(
        title=f"How faithful are explanations of {result.settings.get('model', 'this model')}?",
        verdict=verdict(result),
        parts=[Card("Values", (table_of(result),)), Card("Charts", tuple(charts_of(result)))],
        stamp=stamp,
    )


@draws(Evaluation, "notebook")
def fragment(result: Evaluation) -> str:
    """The same in one <div>."""
    charts = "".join(f"<div>{chart.svg}</div>" for chart in charts_of(result))
    return (
        f'<div style="{CARD}"><div><b>{html.escape(verdict(result))}</b></div>{notebook(table_of(result))}'
        f'<div style="display:flex;flex-wrap:wrap;gap:1em">{charts}</div></div>'
    )


@draws(Evaluation, "tex")
def tex(result: Evaluation) -> str:
    return latex(table_of(result))
