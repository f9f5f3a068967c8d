"""Several explanations of one input under each other: one line per method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from whence.results import Explanation
from whence.viz.colour import scale_of
from whence.viz.terminal import picture, tokens

__all__ = ["show"]


def show(results: Sequence[Explanation], console: Console | None = None) -> None:
    """Print one row per method. Each has its own scale: methods differ in their units."""
    console = console or Console(soft_wrap=not Console().is_terminal)
    first = results[0]
    console.print(f"target: {first.target}   prediction: {first.prediction.label}", highlight=False)
    if not console.is_terminal:
        _plain(results, console)
        console.file.write(special(results) + "\n" if special(results) else "")
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for exp in results:
        table.add_row(exp.method, picture(exp) if exp.is_image else tokens(exp, scale_of(exp.scores)))
    console.print(table)
    if special(results):
        console.print(special(results), style="dim", highlight=False)


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
        if len(exp.scores) == len(first.scores):
            order = np.argsort(-np.abs(exp.scores), kind="stable").tolist()
            places.append(f"{exp.method} {order.index(marked[0]) + 1}")
    return f"{first.tokens[marked[0]]} among {len(first.tokens)} by size: " + ", ".join(places)


def _plain(results: Sequence[Explanation], console: Console) -> None:
    """Tab-separated: a row per feature, a column per method."""
    write = console.file.write  # rich would turn tabs into spaces
    write("\t".join(["feature", *(exp.method for exp in results)]) + "\n")
    names = results[0].tokens or tuple(results[0].feature(i) for i in range(len(results[0])))
    for i, name in enumerate(names):
        values = "\t".join(f"{exp.scores.reshape(-1)[i]:+.4g}" for exp in results)
        write(f"{name}\t{values}\n")
