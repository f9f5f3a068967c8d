"""Small charts as SVG that stands alone: bars, histograms, scatter plots. No plotting library is needed."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

__all__ = ["bars", "histograms", "scatter"]

COLOURS = ("#2166ac", "#e66101", "#5e3c99", "#1b7837", "#c51b7d", "#8c510a", "#35978f", "#b2182b")
GREY = "#777777"  # reads on white and on black
FONT = "font-family='system-ui,sans-serif' font-size='11'"


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    name = html.escape(title)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' width='{width:g}' "
        f"height='{height:g}' role='img' aria-label='{html.escape(title, quote=True)}' {FONT} fill='{GREY}'>"
        f"<title>{name}</title><text x='0' y='12' font-weight='bold'>{name}</text>{''.join(parts)}</svg>\n"
    )


def _text(x: float, y: float, text: object, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{html.escape(str(text))}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, dash: str = "") -> str:
    style = f" stroke-dasharray='{dash}'" if dash else ""
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{GREY}' stroke-width='.7'{style}/>"


def bars(
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    *,
    spreads: Sequence[float] | None = None,
    top: float | None = None,
    unit: str = "{:.3f}",
) -> str:
    """Horizontal bars, one line each, with ± spread where given."""
    left, room, step = 150, 330, 20
    largest = top or max([abs(v) for v in values], default=1) or 1
    parts = []
    for n, (name, value) in enumerate(zip(names, values, strict=True)):
        y = 24 + n * step
        length = room * min(abs(value) / largest, 1)
        colour = COLOURS[0] if value >= 0 else COLOURS[1]
        parts.append(_text(left - 6, y + 11, name, "end"))
        parts.append(f"<rect x='{left}' y='{y}' width='{length:.1f}' height='14' fill='{colour}'/>")
        end = length
        if spreads is not None and spreads[n] > 0:
            half = room * spreads[n] / largest
            parts.append(_line(left + max(length - half, 0), y + 7, left + length + half, y + 7))
            end = length + half
        parts.append(_text(left + end + 5, y + 11, unit.format(value)))
    return _svg(left + room + 70, 30 + step * len(names), parts, title)


def histograms(
    title: str, groups: Sequence[tuple[str, Sequence[float]]], low: float, high: float, bins: int = 20
) -> str:
    """One small histogram per group under each other, on one axis; a mark at the mean."""
    left, room, tall, step = 90, 380, 34, 46
    edges = np.linspace(low, high, bins + 1)
    place = lambda v: left + room * (v - low) / (high - low)
    parts = []
    for n, (name, values) in enumerate(groups):
        base = 20 + step * n + tall
        counts, _ = np.histogram(np.clip(values, low, high), edges)
        most = max(int(counts.max()), 1)
        colour = COLOURS[n % len(COLOURS)]
        for count, start, stop in zip(counts, edges[:-1], edges[1:], strict=True):
            if count:
                height, width = tall * count / most, place(stop) - place(start) - 1
                parts.append(
                    f"<rect x='{place(start):.1f}' y='{base - height:.1f}' width='{width:.1f}' "
                    f"height='{height:.1f}' fill='{colour}' fill-opacity='.75'><title>{count}</title></rect>"
                )
        parts.append(_line(left, base, left + room, base))
        parts.append(_text(left - 6, base - 10, name, "end"))
        if len(values):
            mean = float(np.mean(values))
            parts.append(_line(place(mean), base - tall, place(mean), base, "3 2"))
            parts.append(_text(left + room + 6, base - 10, f"{mean:+.2f}"))
    bottom = 20 + step * len(groups) + 4
    parts += [_text(place(v), bottom + 10, f"{v:g}", "middle") for v in np.linspace(low, high, 5)]
    return _svg(left + room + 50, bottom + 18, parts, title)


def scatter(
    title: str,
    groups: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    x: tuple[str, float, float],
    y: tuple[str, float, float],
) -> str:
    """Points of several groups; axes are (name, lowest, highest)."""
    left, room, tall, head = 60, 380, 220, 24
    (x_name, x0, x1), (y_name, y0, y1) = x, y
    across = lambda v: left + room * (min(max(v, x0), x1) - x0) / (x1 - x0)
    up = lambda v: head + tall * (1 - (min(max(v, y0), y1) - y0) / (y1 - y0))
    parts = [_line(left, head + tall, left + room, head + tall), _line(left, head, left, head + tall)]
    for value in np.linspace(x0, x1, 5):
        parts.append(_text(across(value), head + tall + 14, f"{value:.3g}", "middle"))
    for value in np.linspace(y0, y1, 5):
        parts.append(_text(left - 6, up(value) + 4, f"{value:.3g}", "end"))
    parts.append(_text(left + room / 2, head + tall + 30, x_name, "middle"))
    parts.append(
        f"<text x='14' y='{head + tall / 2}' text-anchor='middle' transform='rotate(-90 14 {head + tall / 2})'>"
        f"{html.escape(y_name)}</text>"
    )
    for n, (name, points) in enumerate(groups):
        colour = COLOURS[n % len(COLOURS)]
        parts += [
            f"<circle cx='{across(a):.1f}' cy='{up(b):.1f}' r='3' fill='{colour}' fill-opacity='.65'>"
            f"<title>{html.escape(name)}: {a:.4f}, {b:.4f}</title></circle>"
            for a, b in points
        ]
        parts.append(f"<circle cx='{left + room + 14}' cy='{head + 8 + 16 * n}' r='4' fill='{colour}'/>")
        parts.append(_text(left + room + 22, head + 12 + 16 * n, name))
    return _svg(left + room + 110, head + tall + 38, parts, title)
