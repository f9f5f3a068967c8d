"""Reports as one HTML file: a verdict on top, then cards of text, figures and tables, then the stamp."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from whence.viz.figure import Figure
from whence.viz.report import document
from whence.viz.svg import to_svg
from whence.viz.tabular import Grid, latex, markdown, sortable

__all__ = ["Card", "Content", "cards", "copies", "facts", "paragraph", "report"]

SCRIPTS = ("base.js", "sheet.js", "sorting.js")
WIDE = 520.0
"""Pixels of a figure that a phone would make too small to read."""
Content: TypeAlias = str | Figure | Grid
"""HTML that is escaped already, a figure, or a table."""


class Card(NamedTuple):
    """A part of a report: its heading, and what stands under it."""

    title: str
    contents: tuple[Content, ...]


def report(
    *,
    title: str,
    verdict: str,
    parts: Sequence[Card],
    stamp: Mapping[str, Any],
    styles: Sequence[str] = (),
) -> str:
    """A page that needs nothing else. Tables can be sorted and copied, figures follow light and dark."""
    ended = [*parts, Card("Stamp", (facts(stamp),))] if any(v is not None for v in stamp.values()) else parts
    return document(
        title=title,
        verdict=verdict,
        body=cards(ended),
        data={"copies": copies(ended)},
        scripts=SCRIPTS,
        styles=styles,
    )


def cards(parts: Iterable[Card]) -> str:
    """The cards as HTML. Tables are numbered in their order, as in `copies`."""
    number, made = 0, []
    for part in parts:
        inner, drawn = [], []
        for content in part.contents:
            if isinstance(content, Figure):
                drawn.append(_figure(content))
                continue
            if drawn:
                inner.append(_beside(drawn))
                drawn = []
            if isinstance(content, Grid):
                inner.append(sortable(content, number))
                number += 1
            else:
                inner.append(content)
        inner += [_beside(drawn)] if drawn else []
        made.append(f'<section class="w-card"><h2>{html.escape(part.title)}</h2>{"".join(inner)}</section>')
    return "\n".join(made)


def _figure(figure: Figure) -> str:
    """It shrinks with the page as far as it can be read, and scrolls from there on."""
    drawing = figure.drawing
    name, wide = html.escape(drawing.title), " w-wide" if drawing.width > WIDE else ""
    return f'<figure class="w-figure{wide}" tabindex="0" aria-label="{name}">{to_svg(drawing)}</figure>'


def _beside(drawn: Sequence[str]) -> str:
    return f'<div class="w-figures">{"".join(drawn)}</div>'


def copies(parts: Iterable[Card]) -> list[dict[str, str]]:
    """Every table as LaTeX and as Markdown: what the page's buttons copy."""
    grids = (content for part in parts for content in part.contents if isinstance(content, Grid))
    return [{"latex": latex(grid), "markdown": markdown(grid)} for grid in grids]


def paragraph(text: str, *, quiet: bool = False) -> str:
    return f"<p{' class=w-quiet' if quiet else ''}>{html.escape(text)}</p>"


def facts(named: Mapping[str, Any]) -> str:
    """Names and values, those that are known."""
    rows = "".join(
        f"<dt>{html.escape(str(k))}</dt><dd>{html.escape(_spelled(v))}</dd>" for k, v in named.items() if v is not None
    )
    return f'<dl class="w-facts">{rows}</dl>'


def _spelled(value: Any) -> str:
    """A value on a line; what has names of its own is listed."""
    if isinstance(value, Mapping):
        inner = value.values() if len(value) == 1 else (f"{k}: {_spelled(v)}" for k, v in value.items())
        return "; ".join(map(str, inner))
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
