"""A map of numbers as a table on a page: each cell has its colour and its number, in light and in dark."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

import numpy as np

from whence.viz.axes import minus
from whence.viz.colour import scale_of
from whence.viz.report import shade
from whence.viz.terminal import printable

__all__ = ["STYLE", "heat_table"]

STYLE = "heat.css"


def heat_table(
    label: str,
    down: Sequence[str],
    across: Sequence[str],
    values: np.ndarray,
    name: Callable[[int, int], str],
) -> str:
    """Rows `down`, columns `across`; `name` says what a cell is when the pointer rests on it."""
    scale = scale_of(values)
    columns = "".join(f'<th scope="col"><span>{_safe(text.strip() or "␣")}</span></th>' for text in across)
    rows = "".join(
        f'<tr><th scope="row">{_safe(down[r])}</th>'
        + "".join(
            f'<td class="{shade(float(value), scale)}" title="{_safe(name(r, c))}: {value:+.4g}">{_short(value)}</td>'
            if np.isfinite(value)
            else "<td></td>"
            for c, value in enumerate(row.tolist())
        )
        + "</tr>"
        for r, row in enumerate(values)
    )
    return (
        f'<div class="w-heattable" tabindex="0" role="region" aria-label="{_safe(label)}"><table><thead><tr><td></td>'
        f"{columns}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _short(value: float) -> str:
    return minus(f"{value:+.2f}") if abs(value) >= 0.005 else "0"


def _safe(text: str) -> str:
    return html.escape(printable(text))
