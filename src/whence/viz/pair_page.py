"""A pair as one HTML file: both inputs with arcs between them, and the matrix; point at either to read its numbers."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from whence.results import Explanation, Pair
from whence.results.explanation_files import to_wire
from whence.results.showing import draws
from whence.viz.axes import minus
from whence.viz.cards import Card, cards, copies
from whence.viz.colour import scale_of
from whence.viz.pair_text import said
from whence.viz.passages import named
from whence.viz.report import document, shade
from whence.viz.tabular import Grid, latex
from whence.viz.typeset import pieces
from whence.viz.verdicts import verdict

__all__ = ["body_of", "data_of", "page", "table_of", "tex"]

TOP = 20
"""Pairs that are listed."""
ARCS = 12
"""Pairs that have an arc while nothing is pointed at."""


@draws(Pair, "html")
def page(pair: Pair) -> str:
    """Texts, pictures and numbers are in the page; its script draws arcs and matrix."""
    title = " × ".join(text if len(text) <= 70 else text[:69] + "…" for text in said(pair))
    parts = [Card("The strongest pairs", (table_of(pair),))]
    return document(
        title=title,
        verdict=verdict(pair),
        body=body_of(pair) + cards(parts),
        data={**data_of(pair), "copies": copies(parts)},
        scripts=("base.js", "pair.js", "sorting.js"),
        styles=("pair.css",),
    )


GLOSSES = {
    "cosine": "The cosine of the two embeddings: 1 where they point the same way, 0 where they have nothing in common.",
    "dot": "The product of the two embeddings. It has no fixed range.",
    "maxsim": "Late interaction: the cosines of each token of the first with its best partner, summed.",
}
"""What a similarity is measured in."""


def body_of(pair: Pair) -> str:
    """Both inputs, the place of the matrix and the receipt, escaped: what the script is given to draw on."""
    size = f"{len(pair.left)} × {len(pair.right)} parts"
    top = f"{pair.measure} similarity {minus(f'{pair.score:+.4f}')} · by {pair.method} · {size}"
    place = f"{pair.rank}. · " if pair.rank is not None else ""
    return (
        f'<div id="whence-pair" class="w-board"><section class="w-card"><h2>{html.escape(place + top)}</h2>'
        f'<div class="w-two" data-role="two">{_side(pair.left, "left")}{_side(pair.right, "right")}</div>'
        f'<p class="w-quiet"><span class="w-key w-raises"></span>raises the similarity '
        f'<span class="w-key w-lowers"></span>lowers it. {html.escape(GLOSSES.get(pair.measure, ""))}</p>'
        f'<p class="w-quiet w-noprint">Point at a part of either to see what it goes with. A click keeps it. '
        f"With keys: Tab and the arrows, then Enter.</p>"
        f'</section><section class="w-card"><h2>What goes with what</h2><div data-role="matrix"></div>'
        f'<p class="w-quiet">Rows are parts of the first, columns are parts of the second.</p></section>'
        f'<section class="w-card"><h2>The receipt</h2>{_receipt(pair)}</section></div>'
    )


def data_of(pair: Pair) -> dict[str, Any]:
    """Numbers in four digits, and what the features are called."""
    return {
        "matrix": [[_short(value) for value in row] for row in pair.matrix],
        "left": _facts(pair.left),
        "right": _facts(pair.right),
        "arcs": ARCS,
        "matches": [list(match) for match in pair.matches],
    }


def _facts(side: Explanation) -> dict[str, Any]:
    scores = side.scores.reshape(-1)
    return {
        "names": [named(side.feature(n)) for n in range(len(side))],
        "scores": [_short(value) for value in scores],
        "columns": side.laid_out().scores.shape[1] if side.laid_out().is_image else None,
    }


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _side(side: Explanation, which: str) -> str:
    made = side.laid_out()
    inner = _picture(made, which) if made.is_image else _text(made, which)
    return f'<div class="w-side" data-side="{which}">{inner}</div>'


LISTS = {"left": "The first", "right": "The second"}


def _text(side: Explanation, which: str) -> str:
    """Words as options of a list, of which one can be tabbed to: arrow keys go on from there."""
    scale = scale_of(side.scores)
    spans = "".join(
        f'{html.escape(piece.gap)}<span class="w-t {shade(float(score), scale)}'
        f'{" w-s" if side.special and side.special[piece.token] else ""}" data-{which}="{piece.token}" {_option(n)}'
        f"{'' if piece.text.strip() else BLANK}>{html.escape(piece.text)}</span>"
        for n, (piece, score) in enumerate(zip(pieces(side), side.scores, strict=True))
    )
    return f'<p class="w-text" dir="auto" role="listbox" aria-label="{LISTS[which]}">{spans}</p>'


BLANK = ' aria-label="white space"'


def _option(n: int) -> str:
    return f'role="option" aria-selected="false" tabindex="{0 if n == 0 else -1}"'


def _picture(side: Explanation, which: str) -> str:
    """The picture with a square for each patch. Fills are attributes: the policy allows no styles in elements."""
    rows, columns = side.scores.shape
    scale = scale_of(side.scores)
    squares = "".join(
        f'<rect class="w-square w-{"against" if score < 0 else "for"}" data-{which}="{n}" {_option(n)} '
        f'aria-label="{html.escape(side.feature(n))}" '
        f'x="{n % columns}" y="{n // columns}" width="1" height="1" '
        f'fill-opacity="{0.75 * min(1.0, abs(float(score)) / scale):.3f}"/>'
        for n, score in enumerate(side.scores.reshape(-1))
    )
    source = to_wire(side)["image"]
    image = f'<img src="{source}" alt="the picture that was compared">' if source else ""
    grid = (
        f'<svg viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" role="listbox" aria-label="{LISTS[which]}">'
        f"{squares}</svg>"
    )
    return f'<div class="w-patched">{image}{grid}</div>'


def _receipt(pair: Pair) -> str:
    receipt = pair.conservation
    if receipt is None or not receipt.complete:
        return f'<p class="w-quiet">{html.escape(str(receipt) if receipt else "none was made")}</p>'
    shown = [("inputs × inputs: the matrix", receipt.inputs - pair.left_out)]
    shown += [("special tokens, left out of it", pair.left_out)] if pair.left_out else []
    rows = [*shown, *receipt.sinks.items(), ("similarity", receipt.target)]
    cells = "".join(f"<tr><td>{html.escape(n)}</td><td class='w-right'>{minus(f'{v:+.4f}')}</td></tr>" for n, v in rows)
    note = f"error {minus(f'{receipt.error:+.1e}')}; sinks are biases, positions and constants of the model"
    return f'<table class="w-table w-books">{cells}</table><p class="w-quiet">{html.escape(note)}</p>'


def table_of(pair: Pair) -> Grid:
    """The strongest pairs, in numbers."""
    found = [(i, j) for i, j in pair.strongest(TOP) if pair.matrix[i, j]]
    rows = [(named(pair.left.feature(i)), named(pair.right.feature(j)), f"{pair.matrix[i, j]:+.4f}") for i, j in found]
    return Grid.of("The strongest pairs", ("first", "second", "relevance"), rows, words=frozenset({0, 1}))


@draws(Pair, "tex")
def tex(pair: Pair) -> str:
    return latex(table_of(pair))
