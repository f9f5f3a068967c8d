"""Patching as one HTML file: the heat map with its numbers, the truth beside it, the largest effects, the stamp."""

from __future__ import annotations

import html

import numpy as np

from whence.results import Patching
from whence.results.patched import EDGES
from whence.results.showing import draws
from whence.viz.cards import Card, paragraph, report
from whence.viz.heat_table import STYLE, heat_table
from whence.viz.patch_map import heading, maps_of, notes, patch_map
from whence.viz.tabular import Grid, latex
from whence.viz.terminal import printable
from whence.viz.verdicts import verdict

__all__ = ["largest", "page", "tex"]

TIPS = 6000
"""Cells up to which each has its number; more of them are a picture."""
SHOWN = 20
"""Places in the list."""


def largest(found: Patching) -> Grid:
    """The places with the largest effects, beside what truly patching them does where that was tried."""
    heads = ("place", "effect") if found.truth is None else ("place", found.method, "true patching")
    rows = [(printable(found.name(*cell)), *_effects(found, cell)) for cell in found.strongest(SHOWN)]
    return Grid.of("Largest effects", heads, rows, notes=tuple(notes(found)))


def _effects(found: Patching, cell: tuple[int, int]) -> list[str]:
    numbers = [found.effects[cell], *([] if found.truth is None else [found.truth[cell]])]
    return ["" if np.isnan(value) else f"{value:+.4f}" for value in numbers]


@draws(Patching, "html")
def page(found: Patching) -> str:
    """Verdict, both texts, the map, the largest effects."""
    texts = tuple(
        f'<p dir="auto"><b>{name}</b> {html.escape(printable(" ".join(token.strip() for token in tokens)))}</p>'
        for name, tokens in _texts(found)
    )
    said = tuple(paragraph(line, quiet=True) for line in notes(found))
    return report(
        title=heading(found)[:160],
        verdict=verdict(found),
        parts=[Card("The two runs", (*texts, *said)), *_maps(found), Card("Largest effects", (largest(found),))],
        stamp={**found.options, **found.stamp},
        styles=(STYLE,),
    )


@draws(Patching, "tex")
def tex(found: Patching) -> str:
    return latex(largest(found))


def _texts(found: Patching) -> list[tuple[str, tuple[str, ...]]]:
    other = "corrupt" if found.into == "clean" else "clean"
    both = {found.into: found.tokens, other: found.other_tokens}
    return [(name, both[name]) for name in ("clean", "corrupt") if both[name]]


def _maps(found: Patching) -> list[Card]:
    """Numbers that can be read; of edges and large maps, a picture."""
    if found.kind == EDGES or found.effects.size > TIPS:
        return [Card("Effects", (patch_map(found),))]
    return [Card(f"Effects by {name}", (_map(found, values),)) for name, values in maps_of(found)]


def _map(found: Patching, values: np.ndarray) -> str:
    down = [found.row(n) for n in range(values.shape[0])]
    across = [found.column(n) for n in range(values.shape[1])]
    return heat_table(heading(found), down, across, values, found.name)
