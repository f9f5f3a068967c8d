"""Tables that people read and take away: as HTML that can be sorted, as LaTeX, as Markdown, and for a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from whence.viz.axes import minus
from whence.viz.latex import escaped

__all__ = ["Grid", "latex", "markdown", "notebook", "sortable"]

RULES = r"% Needs \usepackage[T1]{fontenc} and \usepackage{booktabs}."
FEW = 4
"""Columns from which on a table is as wide as the page."""


@dataclass(frozen=True)
class Grid:
    """Cells under heads, in the order in which they are read. Columns of `words` begin at the left, numbers end at the
    right."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset({0})
    strong: frozenset[tuple[int, int]] = frozenset()
    """Cells (row, column) that stand out."""
    shades: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """Classes of palette.css for cells."""
    notes: tuple[str, ...] = ()
    """What one must know to read it."""

    @classmethod
    def of(cls, name: str, heads: Iterable[str], rows: Iterable[Iterable[str]], **more: object) -> Grid:
        made = tuple(tuple(minus(cell) for cell in row) for row in rows)
        return cls(name, tuple(heads), made, **more)  # type: ignore[arg-type]


def sortable(grid: Grid, number: int) -> str:
    """A table whose heads sort it, in a box that scrolls; `number` is that of its copies in the page."""
    safe, few = html.escape(grid.name), " w-few" if len(grid.heads) < FEW else ""
    heads = "".join(f'<th scope="col"{_side(grid, c)}>{html.escape(head)}</th>' for c, head in enumerate(grid.heads))
    rows = "".join(
        f"<tr>{''.join(_cell(grid, r, c, cell) for c, cell in enumerate(row))}</tr>" for r, row in enumerate(grid.rows)
    )
    notes = "".join(f'<p class="w-quiet">{html.escape(note)}</p>' for note in grid.notes)
    return (
        f'<div class="w-tablebox"><div class="w-scroll" tabindex="0" role="region" aria-label="{safe}">'
        f'<table class="w-table w-sortable{few}" aria-label="{safe}" data-copies="{number}">'
        f"<thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{notes}</div>"
    )


def _side(grid: Grid, column: int) -> str:
    return "" if column in grid.words else ' class="w-right"'


def _cell(grid: Grid, row: int, column: int, text: str) -> str:
    shown = html.escape(text)
    if (row, column) in grid.shades:
        shown = f'<span class="w-chip {grid.shades[row, column]}">{shown}</span>'
    if (row, column) in grid.strong:
        shown = f"<b>{shown}</b>"
    return f"<td{_side(grid, column)}>{shown}</td>"


def notebook(grid: Grid) -> str:
    """The same with its style in each element: viewers of notebooks drop style sheets."""

    def dress(column: int) -> str:
        side = "left" if column in grid.words else "right"
        return f'style="text-align:{side};padding:.1em .9em .1em 0;background:#fff;color:#1b1f24"'

    heads = "".join(f"<th {dress(c)}>{html.escape(head)}</th>" for c, head in enumerate(grid.heads))
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td {dress(c)}>{'<b>' * strong}{html.escape(cell)}{'</b>' * strong}</td>"
            for c, cell in enumerate(row)
            for strong in [(r, c) in grid.strong]
        )
        + "</tr>"
        for r, row in enumerate(grid.rows)
    )
    notes = "".join(f'<div style="opacity:.7;font-size:.85em">{html.escape(note)}</div>' for note in grid.notes)
    inner = f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
    table = f'<table style="border-collapse:collapse;line-height:1.5">{inner}</table>'
    return f'<div style="overflow-x:auto">{table}</div>{notes}'


def markdown(grid: Grid) -> str:
    """A table in GitHub's dialect, columns aligned in the source as well."""
    cells = [[_marked(cell) for cell in row] for row in (grid.heads, *_bold(grid, "**", "**"))]
    widths = [max(3, *(len(row[c]) for row in cells)) for c in range(len(grid.heads))]
    rule = ["-" * w if c in grid.words else "-" * (w - 1) + ":" for c, w in enumerate(widths)]
    lines = [_padded(grid, cells[0], widths), rule, *(_padded(grid, row, widths) for row in cells[1:])]
    notes = ["", *grid.notes] if grid.notes else []
    return "\n".join([*(f"| {' | '.join(row)} |" for row in lines), *notes]) + "\n"


def _padded(grid: Grid, row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.ljust(widths[c]) if c in grid.words else cell.rjust(widths[c]) for c, cell in enumerate(row)]


def _marked(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")


def _bold(grid: Grid, before: str, after: str) -> list[list[str]]:
    return [
        [f"{before}{cell}{after}" if (r, c) in grid.strong else cell for c, cell in enumerate(row)]
        for r, row in enumerate(grid.rows)
    ]


def latex(grid: Grid, *, wide: bool = False) -> str:
    """A tabular with rules of booktabs, its notes beneath: a fragment for \\input. `wide` sets its first column as a
    paragraph, for sentences."""
    spec = "".join("l" if c in grid.words else "r" for c in range(len(grid.heads)))
    spec = "p{0.3\\linewidth}" + spec[1:] if wide else spec
    cells = [[_set(cell) for cell in row] for row in grid.rows]
    for r, c in grid.strong:
        value, mark = _marked_off(cells[r][c])
        cells[r][c] = f"\\textbf{{{value}}}{mark}"
    every = [[_set(head) for head in grid.heads], *cells]
    widths = [max(len(row[c]) for row in every) for c in range(len(grid.heads))]
    lines = [" & ".join(_padded(grid, row, widths)).rstrip() + r" \\" for row in every]
    notes = "".join(f"\\par\\smallskip{{\\footnotesize {_set(note)}}}\n" for note in grid.notes)
    small = r"\small\setlength{\tabcolsep}{3pt}" if wide else ""
    return (
        f"% {' '.join(grid.name.split())}, made by whence: \\input this file.\n{RULES}\n"
        f"{{{small}\\setlength{{\\parindent}}{{0pt}}%\n\\begin{{tabular}}{{{spec}}}\n\\toprule\n{lines[0]}\n\\midrule\n"
        + "\n".join(lines[1:])
        + f"\n\\bottomrule\n\\end{{tabular}}\n{notes}}}\n"
    )


def _marked_off(cell: str) -> tuple[str, str]:
    """A value, and the star or tie behind it, which takes no room: digits stay under each other."""
    for mark in (" *", " ="):
        if cell.endswith(mark):
            return cell.removesuffix(mark), f"\\rlap{{\\,{mark.strip()}}}"
    return cell, ""


def _set(text: str) -> str:
    made = escaped(minus(" ".join(text.split())))
    return f"{{}}{made}" if made.startswith(("[", "*")) else made  # the end of the row above would take it as its own
