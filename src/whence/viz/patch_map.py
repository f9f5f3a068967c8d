"""Patching as a heat map: a row for each layer, a column for each head or token."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text as Words

from whence.results import Patching
from whence.results.patched import EDGES
from whence.results.showing import draws
from whence.viz.axes import MARGIN, minus
from whence.viz.colour import blend, contrast_text, heat, scale_of
from whence.viz.drawing import FAINT, HAIR, Drawing, Raster, Rect, Shape, Text, stacked
from whence.viz.edge_map import edge_map
from whence.viz.figure import Figure, figure_of
from whence.viz.html import CARD
from whence.viz.metrics import Measure, clipped
from whence.viz.terminal import printable
from whence.viz.token_text import legend

__all__ = ["heading", "maps_of", "notes", "patch_map"]

LARGEST = 900.0
"""Pixels of the longer side of the map."""
READABLE = 9.0
"""Pixels a row needs to carry its name."""
SHOWN = 10
"""Places that are listed in text."""


def heading(found: Patching) -> str:
    return f"{found.kind} by {found.method}: {printable(found.target)}"


def notes(found: Patching) -> list[str]:
    """What the numbers are, and how true."""
    other = "corrupt" if found.into == "clean" else "clean"
    made = [
        minus(f"score: clean {found.clean_score:+.4g}, corrupt {found.corrupt_score:+.4g}"),
        f"effect on the {found.into} run's score of the {other} run's activation"
        + (", along an edge alone" if found.kind == EDGES else ""),
    ]
    if found.truth is not None and found.correlation is not None:
        ran, all_ = (int(np.isfinite(values).sum()) for values in (found.truth, found.effects))
        which = "" if ran == all_ else f" of the {ran} largest"
        made.append(f"correlation with true patching{which}: {found.correlation:.3f}")
    return made


def maps_of(found: Patching) -> list[tuple[str, np.ndarray]]:
    """What is drawn: the effects, and the truth where it is known, each with its name."""
    return [(found.method, found.effects)] + ([("true patching", found.truth)] if found.truth is not None else [])


# -- figures ---------------------------------------------------------------------------------------------------------


@figure_of(Patching)
def patch_map(found: Patching) -> Figure:
    """Effects, and below them the truth where it is known: orange raises the score, blue lowers it."""
    maps = maps_of(found)
    if found.kind == EDGES:
        said = notes(found)
        return Figure(lambda measure: stacked([edge_map(found, name, own, said, measure) for name, own in maps], gap=0))
    return Figure(lambda measure: stacked([_drawn(found, name, own, measure) for name, own in maps], gap=0))


def _drawn(found: Patching, name: str, values: np.ndarray, measure: Measure) -> Drawing:
    rows, columns = values.shape
    cell = min(22.0, max(2.0, LARGEST / max(rows, columns)))
    wide, high = cell * columns, cell * rows
    size, has_names = min(11.0, cell * 0.85), cell >= READABLE
    across = [clipped(found.column(n).strip() or "␣", 90, measure, size) for n in range(columns)] if has_names else []
    down = [clipped(found.row(n), 110, measure, size) for n in range(rows)] if has_names else []
    left = MARGIN + max((measure(text, size, False) for text in down), default=14.0) + 8
    above = MARGIN + 30 + max((measure(text, size, False) for text in across), default=14.0) + 8
    scale = scale_of(values)
    strip, strip_width = legend(scale, measure)
    width = max(left + wide, left + strip_width, 420.0) + MARGIN
    title = clipped(f"{found.kind} by {name}: {printable(found.target)}", width - 2 * MARGIN, measure, 14, True)
    shapes: list[Shape] = [
        Text(MARGIN, MARGIN + 13, title, 14, bold=True),
        Rect(left - 1, above - 1, wide + 2, high + 2, HAIR),
        Raster(left, above, wide, high, heat(values, scale), title=f"{rows} places × {columns}"),
    ]
    for n, text in enumerate(down):
        shapes.append(Text(left - 6, above + cell * (n + 0.5) + size * 0.35, text, size, anchor="end"))
    for n, text in enumerate(across):
        shapes.append(Text(left + cell * (n + 0.5) + size * 0.35, above - 6, text, size, rotate=-90))
    if not has_names:
        shapes.append(Text(left, above - 6, f"{columns} {'heads' if found.kind == 'heads' else 'tokens'} →", 10, FAINT))
    shapes += [shape.moved(left, above + high + 14) for shape in strip]
    foot = above + high + 44
    for line in notes(found):
        shapes.append(Text(left, foot, clipped(line, width - left - MARGIN, measure, 10), 10, FAINT))
        foot += 14
    return Drawing(width, foot + MARGIN, tuple(shapes), title)


# -- text ------------------------------------------------------------------------------------------------------------


def _listed(found: Patching) -> list[tuple[str, str]]:
    """The largest effects: the number, and what it is of, with the truth where that is known."""
    made = []
    for cell in found.strongest(SHOWN):
        true = float("nan") if found.truth is None else found.truth[cell]
        made.append(
            (f"{found.effects[cell]:+.4f}", found.name(*cell) + ("" if np.isnan(true) else f" (true {true:+.4f})"))
        )
    return made


@draws(Patching, "txt")
def plain(found: Patching) -> str:
    """Scores, and the places with the largest effects."""
    lines = [heading(found), *notes(found), ""]
    lines += [f"{number:>10}  {name}" for number, name in _listed(found)]
    return "\n".join(printable(line) for line in lines)


@draws(Patching, "terminal")
def render(found: Patching) -> Group:
    """The heat map in colours, where it fits, and the largest effects."""
    parts: list[Any] = [Words(printable(heading(found)), style="bold"), *map(Words, notes(found)), Words("")]
    best = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in _listed(found):
        best.add_row(number, Words(printable(name)))
    if found.kind == EDGES:
        return Group(*parts, best)
    scale = scale_of(found.effects)
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, row in enumerate(found.effects):
        cells = Words()
        for value in row:
            red, green, blue = blend(float(value), scale)
            cells.append("  ", style=f"on rgb({red},{green},{blue})" if np.isfinite(value) else "")
        grid.add_row(found.row(place), cells)
    return Group(*parts, grid, Words(""), best)


@draws(Patching, "notebook")
def fragment(found: Patching) -> str:
    """The heat map as a table; each cell says what it is when the pointer rests on it. Edges are a picture."""
    if found.kind == EDGES:
        return patch_map(found).svg
    tables = "".join(_table(found, values) for _, values in maps_of(found))
    said = "<br>".join(html.escape(line) for line in notes(found))
    return (
        f'<div style="{CARD}"><div><b>{html.escape(heading(found))}</b></div>{tables}'
        f'<div style="opacity:.7;font-size:.85em">{said}</div></div>'
    )


def _table(found: Patching, values: np.ndarray) -> str:
    scale, rows = scale_of(values), []
    for place, row in enumerate(values):
        cells = []
        for part, value in enumerate(row):
            ground = blend(float(value), scale)
            tip = html.escape(f"{printable(found.name(place, part))}: {value:+.4g}")
            dress = f"background:rgb{ground};color:{contrast_text(ground)}".replace(", ", ",")
            cells.append(f'<td title="{tip}" style="{dress};min-width:1.2em;height:1.2em;padding:0"></td>')
        name = f'<th style="font-weight:normal;text-align:left;padding:0 .6em 0 0">{html.escape(found.row(place))}</th>'
        rows.append(f"<tr>{name}{''.join(cells)}</tr>")
    return f'<table style="border-collapse:collapse;line-height:1.1;font-size:.85em">{"".join(rows)}</table>'
