"""A diagnosis as a page with plots, as Markdown, and in a terminal."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from whence.errors import InputError
from whence.results.diagnosis import Diagnosis, Section
from whence.results.percents import percent
from whence.results.showing import draws
from whence.viz import charts
from whence.viz.cards import Card, paragraph, report
from whence.viz.figure import Figure, figure_of, pile
from whence.viz.html import CARD
from whence.viz.tabular import Grid, latex, notebook
from whence.viz.verdicts import verdict

__all__ = ["every_figure", "figures", "fragment", "markdown", "page", "table_of", "terminal", "tex"]

LONGEST = 12
"""Rows of a table that are shown where people read it; the file holds all of them."""


# -- figures -------------------------------------------------------------------------------------------------------


def figures(section: Section) -> dict[str, Figure]:
    """Name to figure: what there is to see in a section."""
    return DRAWN[section.name](section) if section.name in DRAWN and section.points else {}


@figure_of(Diagnosis)
def every_figure(found: Diagnosis) -> Figure:
    """All of them under each other."""
    drawn = [figure for section in found.sections for figure in figures(section).values()]
    if not drawn:
        raise InputError("this diagnosis has nothing to draw: save it as .md, .html or .json")
    return pile(drawn)


def _agreement(section: Section) -> dict[str, Figure]:
    made = {}
    for against in ("gradient", "leave-one-out"):
        own = [p for p in section.points if p["what"] == "head" and p["head"] != "mean" and p["against"] == against]
        layers = sorted({p["layer"] for p in own})
        groups = [(f"layer {n}", [p["tau"] for p in own if p["layer"] == n]) for n in layers]
        if groups:
            title = f"Kendall τ of each head against {against}, every example"
            made[f"tau_{against.replace('-', '_')}"] = charts.histograms(title, groups, -1, 1)
    return made


def _counterfactual(section: Section) -> dict[str, Figure]:
    rows = [r for r in section.rows if r["head"] == "all"]
    names = [f"{_place(r['layer'])}, {r['attention']}" for r in rows]
    made = {
        "effect": charts.plain_bars("Median TVD when attention is replaced", names, [r["tvd"] for r in rows], top=1)
    }
    own = [p for p in section.points if p["kind"] == "permuted" and p["head"] is None]
    places = list(dict.fromkeys(p["layer"] for p in own))
    groups = [
        (_place("all" if n is None else n), [(p["tvd"], p["strongest"]) for p in own if p["layer"] == n])
        for n in places
    ]
    made["strongest"] = charts.scatter(
        "Effect of shuffling against the strongest weight, one point per example",
        groups,
        x=("median TVD", 0, 1),
        y=("largest weight of the predicting row", 0, 1),
    )
    return made


def _adversarial(section: Section) -> dict[str, Figure]:
    epsilon = float(section.settings.get("epsilon", 0.01))
    places = list(dict.fromkeys(p["layer"] for p in section.points))
    groups = [(_place(n), [(p["tvd"], p["jsd"]) for p in section.points if p["layer"] == n]) for n in places]
    drawn = charts.scatter(
        "The furthest attention found at the same prediction, one point per example",
        groups,
        x=("TVD of the prediction", 0, epsilon),
        y=("JSD of attention (nats)", 0, math.log(2)),
    )
    return {"jsd_tvd": drawn}


def _guided(section: Section) -> dict[str, Figure]:
    names = [r["guide"] for r in section.rows]
    drawn = charts.plain_bars(
        "Accuracy on held-out examples",
        names,
        [r["accuracy"] for r in section.rows],
        spreads=[r["spread"] for r in section.rows],
        top=1,
        worded=lambda value: percent(value, 1),
    )
    return {"accuracy": drawn}


def _place(layer: Any) -> str:
    return "all layers" if layer == "all" else f"layer {layer}"


DRAWN: dict[str, Callable[[Section], dict[str, Figure]]] = {
    "agreement": _agreement,
    "counterfactual": _counterfactual,
    "adversarial": _adversarial,
    "guided": _guided,
}


# -- tables --------------------------------------------------------------------------------------------------------


def _shown(section: Section) -> tuple[list[Mapping[str, Any]], int]:
    """The rows people read first, and how many are left: single heads come last, the strongest of them first."""
    rows = _side_by_side(section.rows) if section.name == "agreement" else list(section.rows)
    heads = [r for r in rows if isinstance(r.get("head"), int)]
    others = [r for r in rows if not isinstance(r.get("head"), int)]
    measure = "τ gradient" if section.name == "agreement" else "tvd"
    heads = sorted(heads, key=lambda r: -abs(r.get(measure) or 0))
    room = max(LONGEST - len(others), 4)
    return [*others, *heads[:room]], max(len(heads) - room, 0)


def _side_by_side(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Both measures of one ranking in one row."""
    made: dict[tuple[Any, ...], dict[str, Any]] = {}
    measures = list(dict.fromkeys(r["against"] for r in rows))
    for row in rows:
        place = {n: row[n] for n in ("what", "layer", "head")}
        empty = {f"{n} {m}": None for m in measures for n in ("τ", "significant")}
        held = made.setdefault(tuple(place.values()), {**place, **empty})
        held[f"τ {row['against']}"], held[f"significant {row['against']}"] = row["tau"], row["significant"]
    return list(made.values())


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(rows[0]) if rows else []


def _heading(found: Diagnosis) -> str:
    return f"Is attention an explanation? {found.model}, {found.examples} examples"


def _below(section: Section, left: int) -> list[str]:
    """Notes under a table: what was left out, and with which settings it was made."""
    notes = list(section.notes)
    if left:
        notes.append(f"{left} more single heads are in the JSON file and in `.table()`.")
    settings = ", ".join(f"{k}={v}" for k, v in section.settings.items() if v is not None)
    return [*notes, f"Settings: {settings}."] if settings else notes


# -- formats -------------------------------------------------------------------------------------------------------


@draws(Diagnosis, "md")
def markdown(found: Diagnosis, *, level: int = 1) -> str:
    """Headings, tables and paragraphs, as Markdown."""
    mark = "#" * level
    lines = [f"{mark} {_heading(found)}", ""]
    for section in found.sections:
        rows, left = _shown(section)
        columns = _columns(rows)
        lines += [f"{mark}# {section.title}", ""]
        lines += [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"] if columns else []
        lines += [f"| {' | '.join(_cell(row.get(c)) for c in columns)} |" for row in rows]
        lines += ["", section.text, ""]
        lines += [f"*{note}*  " for note in _below(section, left)] + [""]
    return "\n".join(lines)


def table_of(section: Section) -> Grid:
    """The rows of a section that people read first."""
    rows, left = _shown(section)
    columns = _columns(rows)
    words = {n for n, c in enumerate(columns) if any(isinstance(row.get(c), str) for row in rows)}
    cells = [[_cell(row.get(c)) for c in columns] for row in rows]
    return Grid.of(section.title, columns, cells, words=frozenset(words), notes=tuple(_below(section, left)))


@draws(Diagnosis, "notebook")
def fragment(found: Diagnosis) -> str:
    """Everything in one <div>: for notebooks."""
    parts = []
    for section in found.sections:
        drawn = "".join(f"<div>{drawn.svg}</div>" for drawn in figures(section).values())
        table = notebook(table_of(section)) if section.rows else ""
        parts.append(
            f"<div style='margin-top:.8em'><b>{html.escape(section.title)}</b></div>"
            f"<div>{html.escape(section.text)}</div><div style='overflow-x:auto'>{drawn}</div>{table}"
        )
    return f'<div style="{CARD}"><div><b>{html.escape(_heading(found))}</b></div>{"".join(parts)}</div>'


@draws(Diagnosis, "html")
def page(found: Diagnosis) -> str:
    """Verdict, then a card for each question: what was found, plots, table."""
    parts = [
        Card(
            section.title,
            (
                paragraph(section.text),
                *figures(section).values(),
                *([table_of(section)] if section.rows else []),
            ),
        )
        for section in found.sections
    ]
    return report(title=_heading(found), verdict=verdict(found), parts=parts, stamp=found.stamp)


@draws(Diagnosis, "tex")
def tex(found: Diagnosis) -> str:
    """A table for each question."""
    return "\n".join(latex(table_of(section)) for section in found.sections if section.rows)


@draws(Diagnosis, "terminal")
def terminal(found: Diagnosis) -> Group:
    """Tables and paragraphs for people at a terminal."""
    parts: list[Any] = [Text(_heading(found), style="bold")]
    for section in found.sections:
        rows, left = _shown(section)
        table = Table(box=None, pad_edge=False, header_style="dim")
        for n, column in enumerate(_columns(rows)):
            table.add_column(column, justify="left" if n == 0 else "right")
        for row in rows:
            table.add_row(*(_cell(row.get(c)) for c in _columns(rows)))
        notes = Text(" ".join(_below(section, left)), style="dim")
        parts += [Text(""), Text(section.title, style="bold"), table, Text(section.text), notes]
    return Group(*parts)
