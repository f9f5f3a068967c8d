"""Several explanations of one input under each other: one line per method and target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from whence.results import Comparison, Explanation
from whence.results.showing import draws
from whence.viz.terminal import body

__all__ = ["name_of", "plain", "special", "terminal"]


def name_of(exp: Explanation, among: Comparison) -> str:
    """How a row is called: by its method, and by its target where there are several."""
    return exp.method if len(among.targets) == 1 else f"{exp.method} · {exp.target}"


def heading(results: Comparison) -> str:
    return f"target: {', '.join(results.targets)}   prediction: {results[0].prediction.label}"


@draws(Comparison, "terminal")
def terminal(results: Comparison) -> Group:
    """One row per explanation. Each has its own scale: methods differ in their units."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for exp in results:
        table.add_row(name_of(exp, results), body(exp))
    parts: list[Any] = [Text(heading(results)), table]
    return Group(*parts, *([Text(special(results), style="dim")] if special(results) else []))


def special(results: Sequence[Explanation]) -> str:
    """What each method makes of the first special token: its place among all features, by size.

    Gradient-weighted attention tends to put [CLS] first, because the prediction is read there; methods that ask what
    happens without a token rarely do.
    """
    first = results[0]
    marked = [i for i, mark in enumerate(first.special) if mark]
    if not marked:
        return ""
    places = []
    for exp in results:
        if exp.target == first.target and len(exp.scores) == len(first.scores):
            order = np.argsort(-np.abs(exp.scores), kind="stable").tolist()
            places.append(f"{exp.method} {order.index(marked[0]) + 1}")
    return f"{first.tokens[marked[0]]} among {len(first.tokens)} by size: " + ", ".join(places)


@draws(Comparison, "txt")
def plain(results: Comparison) -> str:
    """Tab-separated: a row per feature, a column per explanation."""
    names = results[0].tokens or tuple(results[0].feature(i) for i in range(len(results[0])))
    lines = [heading(results), "\t".join(["feature", *(name_of(exp, results) for exp in results)])]
    for i, name in enumerate(names):
        lines.append("\t".join([name, *(f"{exp.scores.reshape(-1)[i]:+.4g}" for exp in results)]))
    return "\n".join([*lines, *([special(results)] if special(results) else [])])
