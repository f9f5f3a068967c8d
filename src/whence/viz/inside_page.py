"""The inside of a prediction as text, in a terminal, in a notebook, and as one HTML file."""

from __future__ import annotations

import html

import numpy as np
from rich.console import Group
from rich.text import Text

from whence.results.explanation_files import to_wire
from whence.results.inside import Inside
from whence.results.showing import draws
from whence.viz.cards import Card, Content, cards, copies
from whence.viz.colour import blend, contrast_text, scale_of
from whence.viz.heat_table import STYLE, heat_table
from whence.viz.html import CARD
from whence.viz.inside_maps import (
    MAPS,
    TIPS,
    columns_of,
    figures,
    grid_of,
    name_of,
    place_map,
    row_name,
    strongest,
    unit_of,
)
from whence.viz.passages import named
from whence.viz.report import SCRIPTS, document
from whence.viz.tabular import Grid
from whence.viz.terminal import header, printable
from whence.viz.verdicts import verdict

__all__ = ["fragment", "lines", "page", "receipt", "render", "screen", "table_of"]

TOP = 10
"""How many of the strongest are named."""
RECEIPTS = "Receipts: every layer and all that is absorbed behind it are the target"
FEW = 6
"""Layers whose receipts are written out."""
WIDE = 24
"""Columns of a map that fit a terminal; of wider ones the strongest are named."""


def receipt(inside: Inside, layer: int) -> str:
    """Of one layer, in words."""
    made = inside.receipts[layer]
    if made.complete:
        return str(made).replace("inputs", "layer", 1)
    parts = [f"layer {made.inputs:+.4f}", *(f"{kind} {amount:+.4f}" for kind, amount in made.sinks.items())]
    return f"{' '.join(parts)} of {made.target:+.4f}; the other {made.error:+.4f} passes this layer by"


def _named(inside: Inside, place: str, most: int) -> list[str]:
    """The strongest, one to a line: score, tab, what it is."""
    made = []
    for *at, score in inside.top(place, most):
        if place in (*MAPS, "neurons") and len(at) == 2:
            unit = unit_of(place)
            what = f"layer {at[0]}, {named(at[1]) if isinstance(at[1], str) else f'{unit} {at[1]}'}"
        else:
            what = str(at)
        made.append(f"{score:+.4f}\t{printable(what)}")
    return made


@draws(Inside, "txt")
def plain(inside: Inside) -> str:
    return lines(inside)


def lines(inside: Inside, most: int = TOP) -> str:
    """The strongest of every place, and the receipt of every layer."""
    made = [header(inside.inputs)]
    for place in inside.places:
        made += [f"{place}:", *_named(inside, place, most)]
    return "\n".join([*made, *_balanced(inside)])


def _balanced(inside: Inside) -> list[str]:
    """A line for each layer; of a deep model, one for all that balance."""
    held = range(len(inside.receipts))
    whole = [n for n in held if inside.receipts[n].complete]
    if len(whole) <= FEW:
        return [f"receipt of layer {n}: {receipt(inside, n)}" for n in held]
    worst = max((inside.receipts[n] for n in whole), key=lambda made: abs(made.error))
    said = f"receipts of {len(whole)} layers: each and what is absorbed behind it are {worst.target:+.4f}"
    apart = [f"receipt of layer {n}: {receipt(inside, n)}" for n in held if n not in whole]
    return [f"{said} (largest error {worst.error:+.1e})", *apart]


@draws(Inside, "terminal")
def render(inside: Inside) -> Group:
    return screen(inside)


def screen(inside: Inside, most: int = TOP) -> Group:
    """Maps that are narrow enough in colour, the strongest of every place in words, and the last receipt."""
    parts: list[Text] = [Text(header(inside.inputs), style="bold")]
    for place in inside.places:
        rows = [np.asarray(row).reshape(-1) for row in inside[place]] if place in MAPS else []
        parts.append(Text(f"\n{place}", style="bold"))
        if rows and max(map(len, rows)) <= WIDE:
            parts += _coloured(inside, place, rows)
        parts += [Text(line.replace("\t", "  ")) for line in _named(inside, place, most)]
    if inside.receipts:
        worst = max(range(len(inside.receipts)), key=lambda n: abs(inside.receipts[n].error))
        closed = sum(one.complete for one in inside.receipts)
        note = f"\nreceipts: {closed} of {len(inside.receipts)} layers are accounted for in full; the least exact is "
        parts.append(Text(f"{note}layer {worst}: {receipt(inside, worst)}", style="dim"))
    return Group(*parts)


def _coloured(inside: Inside, place: str, rows: list[np.ndarray]) -> list[Text]:
    scale = max(scale_of(row) for row in rows)
    made = []
    for n, row in enumerate(rows):
        names = inside.columns_of(place, n) if unit_of(place) == "token" else ()
        line = Text(f"{n:>3} ", style="dim")
        for c, score in enumerate(row):
            red, green, blue = ground = blend(float(score), scale)
            text = printable(named(names[c])) if names else f"{c:>2} "
            line.append(f" {text} " if names else text, style=f"{contrast_text(ground)} on rgb({red},{green},{blue})")
        made.append(line)
    return made


@draws(Inside, "notebook")
def fragment(inside: Inside) -> str:
    """The figures in one <div>."""
    drawn = "".join(f"<div>{figure.svg}</div>" for figure in figures(inside).values())
    return f'<div style="{CARD};overflow-x:auto"><div><b>{html.escape(header(inside.inputs))}</b></div>{drawn}</div>'


@draws(Inside, "html")
def page(inside: Inside) -> str:
    """A map for each place with its strongest in a table, a receipt per layer; then the input as in other reports."""
    text = (inside.inputs.text or " ".join(inside.tokens)).strip() or f"inside {inside.target}"
    parts = [Card(f"Relevance of {place}", (*_seen(inside, place), table_of(inside, place))) for place in inside.places]
    parts += [Card(RECEIPTS, (_receipts(inside),))] if inside.receipts else []
    return document(
        title=text if len(text) <= 120 else text[:119] + "…",
        verdict=verdict(inside),
        body=f'{cards(parts)}<div id="whence-board" class="w-board"></div>',
        data={"explanations": [to_wire(inside.inputs)], "copies": copies(parts)},
        scripts=(*SCRIPTS, "report.js", "sorting.js"),
        styles=(STYLE,),
    )


def _seen(inside: Inside, place: str) -> tuple[Content, ...]:
    """The map, with numbers where they are few enough to be read; of heads and experts the strongest as well."""
    ranked = (strongest(inside, place, top=TOP, width=500.0),) if place in ("heads", "experts") else ()
    if place not in MAPS:
        return (strongest(inside, place),)
    rows = [np.asarray(row).reshape(-1) for row in inside[place]]
    grid = grid_of(rows)
    if grid.size > TIPS:
        return (place_map(inside, place), *ranked)
    down = [row_name(inside, place, n) for n in range(len(rows))]
    across = columns_of(inside, place, rows, grid.shape[1])
    label = f"Relevance of {place}: layers go down, {unit_of(place)}s to the right"
    return (heat_table(label, down, across, grid, lambda r, c: name_of(inside, place, r, c)), *ranked)


def table_of(inside: Inside, place: str) -> Grid:
    """The strongest of a place."""
    rows = [tuple(reversed(line.split("\t"))) for line in _named(inside, place, TOP)]
    return Grid.of(f"The {len(rows)} strongest of {place}", (place, "relevance"), rows)


def _receipts(inside: Inside) -> Grid:
    rows = [(str(n), name, receipt(inside, n)) for n, name in enumerate(inside.layers[: len(inside.receipts)])]
    return Grid.of("Receipts of the layers", ("#", "layer", "receipt"), rows, words=frozenset({1, 2}))
