"""Evaluations as HTML: the table, and the curves with their bands as SVG that needs nothing else."""

from __future__ import annotations

import html

import numpy as np

from whence.results.drawing import draws
from whence.results.evaluation import Curve, Evaluation
from whence.results.evaluation_files import grid, heading, notes

__all__ = ["chart", "fragment", "page"]

# Okabe and Ito: told apart by colour-blind readers as well; dashes tell apart what comes after eight.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
DASHES = ("", "6 3", "2 3")
WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 28, 44


@draws(Evaluation, "notebook")
def fragment(result: Evaluation) -> str:
    """Table, settings and one chart per metric that has curves."""
    charts = "".join(chart(result, metric) for metric in result.metrics if metric in result.axes)
    facts = "".join(f"<li>{html.escape(note)}</li>" for note in notes(result))
    return (
        f'<div style="font-family:system-ui,sans-serif">{_table(result)}'
        f'<ul style="opacity:.7;font-size:.85em">{facts}</ul>'
        f'<div style="display:flex;flex-wrap:wrap;gap:1em">{charts}</div></div>'
    )


@draws(Evaluation, "html")
def page(result: Evaluation) -> str:
    """A file that needs nothing else."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>evaluation</title><style>:root{color-scheme:light}body{max-width:64rem;margin:2rem auto;padding:0 1rem}"
        "td,th{padding:.2em .8em;text-align:left;font-variant-numeric:tabular-nums}"
        f"tr:nth-child(even){{background:#0001}}</style>{fragment(result)}</html>"
    )


def _table(result: Evaluation) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heading(result))
    rows = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in grid(result))
    return f"<table><tr>{head}</tr>{rows}</table>"


def _cell(cell: str) -> str:
    text = html.escape(cell.removesuffix(" *"))
    return f"<td><b>{text}</b></td>" if cell.endswith(" *") else f"<td>{text}</td>"


def chart(result: Evaluation, metric: str) -> str:
    """Mean curves of all methods with 95 % bands, best at the top of the legend."""
    curves = {method: c for (method, name), c in result.curves.items() if name == metric}
    if not curves:
        return ""
    axis = result.axes[metric]
    sign = 1 if result.better.get(metric) == "lower" else -1
    order = sorted(curves, key=lambda method: sign * result.value(method, metric))
    bottom, top = _range(list(curves.values()))
    frame = _Frame(min(axis.points), max(axis.points), bottom, top)
    height = HEIGHT + 16 * len(order)
    parts = [_grid_lines(frame), *(_line(frame, n, m, curves[m]) for n, m in enumerate(order))]
    parts += [_legend(n, m, result.value(m, metric)) for n, m in enumerate(order)]
    parts += [
        f'<text x="{LEFT}" y="16" font-weight="bold">{html.escape(metric)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(axis.x)}</text>',
        f'<text transform="translate(12,{HEIGHT / 2:g}) rotate(-90)" text-anchor="middle">{html.escape(axis.y)}</text>',
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui,sans-serif" font-size="11" role="img" aria-label="{html.escape(metric)}">'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>'
    )


class _Frame:
    """Data to places in the picture."""

    def __init__(self, left: float, right: float, bottom: float, top: float):
        self.left, self.right, self.bottom, self.top = left, right, bottom, top

    def x(self, value: float) -> float:
        return LEFT + (value - self.left) / ((self.right - self.left) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.bottom) / ((self.top - self.bottom) or 1) * (HEIGHT - TOP - BOTTOM)

    def points(self, xs: np.ndarray, ys: np.ndarray) -> str:
        return " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(xs, ys, strict=True))


def _range(curves: list[Curve]) -> tuple[float, float]:
    low, high = min(float(c.low.min()) for c in curves), max(float(c.high.max()) for c in curves)
    margin = 0.04 * (high - low or 1)
    return low - margin, high + margin


def _grid_lines(frame: _Frame) -> str:
    parts = []
    for value in np.linspace(frame.bottom, frame.top, 5):
        y = frame.y(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for value in np.linspace(frame.left, frame.right, 6):
        parts.append(
            f'<text x="{frame.x(value):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{value:.3g}</text>'
        )
    return "".join(parts)


def _line(frame: _Frame, n: int, method: str, curve: Curve) -> str:
    colour = COLOURS[n % len(COLOURS)]
    band = f"{frame.points(curve.x, curve.high)} {frame.points(curve.x[::-1], curve.low[::-1])}"
    return (
        f"<g><title>{html.escape(method)}</title>"
        f'<polygon points="{band}" fill="{colour}" opacity=".12"/>'
        f'<polyline points="{frame.points(curve.x, curve.mean)}" fill="none" stroke="{colour}" stroke-width="1.8"'
        f' stroke-dasharray="{_dash(n)}"/></g>'
    )


def _legend(n: int, method: str, value: float) -> str:
    y = HEIGHT + 16 * n
    return (
        f'<line x1="{LEFT}" x2="{LEFT + 26}" y1="{y}" y2="{y}" stroke="{COLOURS[n % len(COLOURS)]}" stroke-width="2.5"'
        f' stroke-dasharray="{_dash(n)}"/><text x="{LEFT + 34}" y="{y + 4}">{html.escape(method)} {value:.4f}</text>'
    )


def _dash(n: int) -> str:
    return DASHES[(n // len(COLOURS)) % len(DASHES)]
