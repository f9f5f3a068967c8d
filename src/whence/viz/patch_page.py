"""Patching as one HTML file: the heat map with its numbers, the truth beside it, the largest effects, the stamp."""

from __future__ import annotations

import html

import numpy as np

from whence.results import Patching
from whence.results.patched import EDGES
from whence.results.showing import draws
from whence.viz.colour import scale_of
from whence.viz.patch_map import heading, maps_of, notes, patch_map
from whence.viz.report import document, shade
from whence.viz.terminal import printable

__all__ = ["page"]

SHOWN = 20
"""Places in the list."""


@draws(Patching, "html")
def page(found: Patching) -> str:
    """Everything is in the text of the page: it needs no script."""
    said = "".join(f"<p>{_safe(line)}</p>" for line in notes(found))
    if found.kind == EDGES:
        maps = f'<section class="w-card"><div class="w-patch">{patch_map(found).svg}</div></section>'
    else:
        maps = "".join(_map(found, name, values) for name, values in maps_of(found))
    truth = "" if found.truth is None else "<th>true patching</th>"
    best = f"<thead><tr><th></th><th>{_safe(found.method)}</th>{truth}</tr></thead>"
    best += "".join(_row(found, cell) for cell in found.strongest(SHOWN))
    texts = "".join(
        f'<p dir="auto"><b>{name}</b> {_safe(" ".join(token.strip() for token in tokens))}</p>'
        for name, tokens in _texts(found)
    )
    stamp = ", ".join(f"{name} {value}" for name, value in {**found.options, **found.stamp}.items() if value)
    return document(
        title=heading(found)[:160],
        body=(
            f'<section class="w-card">{texts}{said}</section>{maps}'
            f'<section class="w-card"><h3>Largest effects</h3><table class="w-table">{best}</table></section>'
            f'<p class="w-quiet">{_safe(stamp)}</p>'
        ),
        data={},
        scripts=("base.js",),
        styles=("patch.css",),
    )


def _row(found: Patching, cell: tuple[int, int]) -> str:
    numbers = [found.effects[cell], *([] if found.truth is None else [found.truth[cell]])]
    shown = "".join(f"<td>{'' if np.isnan(value) else f'{value:+.4f}'}</td>" for value in numbers)
    return f"<tr><td>{_safe(found.name(*cell))}</td>{shown}</tr>"


def _texts(found: Patching) -> list[tuple[str, tuple[str, ...]]]:
    other = "corrupt" if found.into == "clean" else "clean"
    both = {found.into: found.tokens, other: found.other_tokens}
    return [(name, both[name]) for name in ("clean", "corrupt") if both[name]]


def _map(found: Patching, name: str, values: np.ndarray) -> str:
    scale = scale_of(values)
    columns = "".join(
        f'<th scope="col"><span>{_safe(found.column(n).strip() or "␣")}</span></th>' for n in range(values.shape[1])
    )
    rows = "".join(
        f'<tr><th scope="row">{_safe(found.row(place))}</th>'
        + "".join(
            f'<td class="{shade(float(value), scale)}" title="{_safe(found.name(place, part))}: {value:+.4g}">'
            f"{_short(float(value))}</td>"
            for part, value in enumerate(row)
        )
        + "</tr>"
        for place, row in enumerate(values)
    )
    return (
        f'<section class="w-card"><h3>{_safe(name)}</h3><div class="w-patch"><table><thead><tr><td></td>{columns}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div></section>"
    )


def _short(value: float) -> str:
    return f"{value:+.2f}" if np.isfinite(value) else ""


def _safe(text: str) -> str:
    return html.escape(printable(text))
