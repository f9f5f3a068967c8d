"""Evaluations as figures: curves with their bands, and intervals."""

from __future__ import annotations

import numpy as np

from whence.errors import InputError, UnknownNameError
from whence.results.evaluation import Curve, Evaluation
from whence.results.evaluation_files import shown
from whence.viz.axes import MARGIN, Frame, number
from whence.viz.colour import SERIES
from whence.viz.drawing import FAINT, Dot, Drawing, Line, Polygon, Polyline, Shape, Text, stacked
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, clipped

__all__ = ["charts_of", "curves", "intervals", "summary"]

DASHES: tuple[tuple[float, ...], ...] = ((), (6, 3), (2, 3))
"""Tell apart what comes after the last colour."""
WIDTH, PLOT, STEP = 460.0, 220.0, 18.0


def curves(result: Evaluation, metric: str) -> Figure:
    """Mean curves of all methods with 95 % bands, best at the top of the legend."""
    if metric not in result.metrics:
        raise UnknownNameError("metric", metric, result.metrics)
    if not any(name == metric for _, name in result.curves):
        known = ", ".join(sorted({name for _, name in result.curves})) or "none here does"
        raise InputError(f"{metric!r} has no curves (with curves: {known}): use whence.viz.intervals(result, metric)")
    return Figure(
        lambda measure: _curves(result, metric, measure),
        lambda measure, room: _curves(result, metric, measure, room),
    )


def intervals(result: Evaluation, metric: str) -> Figure:
    """The value of each method with its 95 % interval, best first."""
    return Figure(
        lambda measure: _intervals(result, metric, measure),
        lambda measure, room: _intervals(result, metric, measure, room),
    )


@figure_of(Evaluation)
def summary(result: Evaluation) -> Figure:
    """Every metric: its curves where it has some, else values with their intervals."""
    parts = charts_of(result)
    title = f"evaluation of {', '.join(result.methods)}"

    def layout(measure: Measure, width: float = 2 * WIDTH) -> Drawing:
        columns = min(len(parts), max(1, round(width / WIDTH)))
        drawn = [part.at(measure, width / columns if width < 2 * WIDTH else WIDTH) for part in parts]
        return stacked(drawn, columns=columns, gap=0, title=title)

    return Figure(layout, layout)


def charts_of(result: Evaluation) -> list[Figure]:
    """A chart for each metric: its curves where it has some, else values with their intervals."""
    drawn = {name for _, name in result.curves}
    return [curves(result, m) if m in drawn else intervals(result, m) for m in shown(result)]


def _order(result: Evaluation, metric: str) -> list[str]:
    """Methods, best first; those without a value last."""
    sign = 1 if result.better.get(metric) == "lower" else -1
    known = [m for m in result.methods if (m, metric) in result.measured]
    return sorted(known, key=lambda m: (np.isnan(v := result.value(m, metric)), sign * v))


def _titled(result: Evaluation, metric: str, width: float) -> list[Shape]:
    better = result.better.get(metric)
    shapes: list[Shape] = [Text(MARGIN, MARGIN + 12, metric, 14, bold=True)]
    if better:
        shapes.append(Text(width - MARGIN, MARGIN + 12, f"{better} is better", 11, FAINT, "end"))
    return shapes


def _curves(result: Evaluation, metric: str, measure: Measure, width: float = WIDTH) -> Drawing:
    found = {method: c for (method, name), c in result.curves.items() if name == metric}
    axis = result.axes[metric]
    order = [method for method in _order(result, metric) if method in found]
    low, high = _range(list(found.values()))
    frame = Frame(
        MARGIN + 52, MARGIN + 28, width - 2 * MARGIN - 58, PLOT, min(axis.points), max(axis.points), low, high
    )
    shapes: list[Shape] = [*_titled(result, metric, width), *frame.grid(axis.x, axis.y)]
    pens = {method: n for n, method in enumerate(result.methods)}  # a method has one colour in all charts
    for method in reversed(order):  # the best lies on top
        curve, colour = found[method], SERIES[pens[method] % len(SERIES)]
        band = (*frame.points(curve.x, curve.high), *frame.points(curve.x[::-1], curve.low[::-1]))
        shapes.append(Polygon(band, colour, 0.13, method))
    for method in reversed(order):
        line, colour = frame.points(found[method].x, found[method].mean), SERIES[pens[method] % len(SERIES)]
        shapes.append(Polyline(line, colour, 1.8, _dash(pens[method]), method))
    top = frame.bottom + 58
    for n, method in enumerate(order):
        y = top + STEP * n
        pen = pens[method]
        shapes.append(Line(frame.left, y - 4, frame.left + 24, y - 4, SERIES[pen % len(SERIES)], 2.4, _dash(pen)))
        value = result.estimate(method, metric)
        shapes.append(Text(frame.left + 32, y, clipped(method, 180, measure, 11), 11))
        spread = f"{value.value:.4f}  [{value.low:.4f}, {value.high:.4f}]"
        shapes.append(Text(frame.right, y, spread, 10, FAINT, "end"))
    return Drawing(width, top + STEP * (len(order) - 1) + 6 + MARGIN, tuple(shapes), f"{metric} by method")


def _intervals(result: Evaluation, metric: str, measure: Measure, width: float = WIDTH) -> Drawing:
    order = _order(result, metric)
    found = [result.estimate(method, metric) for method in order]
    labels = [clipped(method, 150, measure, 12) for method in order]
    left = MARGIN + max((measure(label, 12, False) for label in labels), default=0) + 14
    ends = [v for f in found for v in (f.low, f.high, f.value) if np.isfinite(v)] or [0.0, 1.0]
    margin = 0.06 * (max(ends) - min(ends) or 1)
    frame = Frame(
        left, MARGIN + 26, width - MARGIN - left - 50, 24.0 * len(order), min(ends) - margin, max(ends) + margin
    )
    shapes: list[Shape] = [*_titled(result, metric, width), *frame.grid_across(about=4)]
    for n, (label, f) in enumerate(zip(labels, found, strict=True)):
        y = frame.top + 24 * n + 12
        shapes.append(Text(left - 10, y + 4, label, 12, anchor="end"))
        if np.isfinite(f.value):
            shapes.append(Line(frame.x(f.low), y, frame.x(f.high), y, SERIES[0], 2.2))
            tip = f"{order[n]} {f.value:.4f} [{f.low:.4f}, {f.high:.4f}]"
            shapes.append(Dot(frame.x(f.value), y, 4, SERIES[0], title=tip))
        shapes.append(Text(width - MARGIN, y + 4, number(f.value) if np.isfinite(f.value) else "–", 11, FAINT, "end"))
    return Drawing(width, frame.bottom + 20 + MARGIN, tuple(shapes), f"{metric} by method")


def _range(found: list[Curve]) -> tuple[float, float]:
    low, high = min(float(c.low.min()) for c in found), max(float(c.high.max()) for c in found)
    margin = 0.04 * (high - low or 1)
    return low - margin, high + margin


def _dash(n: int) -> tuple[float, ...]:
    return DASHES[(n // len(SERIES)) % len(DASHES)]
