"""Small charts that several figures use: bars, histograms, scatter plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whence.viz.axes import MARGIN, Frame, minus, number
from whence.viz.colour import SERIES
from whence.viz.drawing import FAINT, Dot, Drawing, Line, Rect, Shape, Text
from whence.viz.figure import Figure
from whence.viz.metrics import Measure, clipped

__all__ = ["histograms", "plain_bars", "scatter"]

WIDTH = 580.0


def _titled(title: str, measure: Measure, width: float) -> list[Shape]:
    return [Text(MARGIN, MARGIN + 12, clipped(title, width - 2 * MARGIN, measure, 12, True), 12, bold=True)]


def plain_bars(
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    *,
    spreads: Sequence[float] | None = None,
    top: float | None = None,
    worded: Callable[[float], str] = "{:.3f}".format,
) -> Figure:
    """Horizontal bars, one line each, with ± spread where given."""

    def layout(measure: Measure, width: float = WIDTH) -> Drawing:
        labels = [clipped(name, 200, measure, 11) for name in names]
        left = MARGIN + max((measure(label, 11, False) for label in labels), default=0) + 10
        largest = top or max([abs(v) for v in values], default=1) or 1
        frame = Frame(left, MARGIN + 24, width - MARGIN - left - 52, 20.0 * len(names), 0, largest)
        shapes = [*_titled(title, measure, width), *frame.grid_across()]
        for n, (label, value) in enumerate(zip(labels, values, strict=True)):
            y, spread = frame.top + 20 * n + 3, spreads[n] if spreads is not None else 0.0
            end = frame.x(abs(value))
            shapes.append(Text(left - 8, y + 11, label, 11, anchor="end"))
            shapes.append(Rect(left, y, max(end - left, 0.5), 14, SERIES[0] if value >= 0 else SERIES[1]))
            if spread > 0:
                shapes.append(
                    Line(frame.x(abs(value) - spread), y + 7, frame.x(abs(value) + spread), y + 7, FAINT, 1.4)
                )
            shapes.append(Text(frame.x(abs(value) + spread) + 6, y + 11, worded(value), 10, FAINT))
        return Drawing(width, frame.bottom + 20 + MARGIN, tuple(shapes), title)

    return Figure(layout, layout)


def histograms(
    title: str, groups: Sequence[tuple[str, Sequence[float]]], low: float, high: float, bins: int = 20
) -> Figure:
    """One small histogram per group under each other, on one axis; a mark at the mean."""
    edges = np.linspace(low, high, bins + 1)
    tall, step = 34.0, 46.0

    def layout(measure: Measure, width: float = WIDTH) -> Drawing:
        left = MARGIN + max((measure(name, 11, False) for name, _ in groups), default=0) + 12
        frame = Frame(left, MARGIN + 28, width - MARGIN - left - 46, step * len(groups), low, high)
        shapes = [*_titled(title, measure, width), *frame.grid_across(about=4)]
        for n, (name, values) in enumerate(groups):
            base = frame.top + step * n + tall + 8
            counts, _ = np.histogram(np.clip(values, low, high), edges)
            most, colour = max(int(counts.max()), 1), SERIES[n % len(SERIES)]
            for count, start, stop in zip(counts, edges[:-1], edges[1:], strict=True):
                if count:
                    height, x = tall * int(count) / most, frame.x(float(start))
                    wide = frame.x(float(stop)) - x - 1
                    shapes.append(Rect(x + 0.5, base - height, wide, height, colour, 0, 0.8, str(count)))
            shapes += [Line(left, base, frame.right, base, FAINT), Text(left - 10, base - 8, name, 11, anchor="end")]
            if len(values):
                mean = float(np.mean(values))
                shapes.append(Line(frame.x(mean), base - tall - 3, frame.x(mean), base, FAINT, 1.2, (3, 2)))
                shapes.append(Text(frame.right + 8, base - 8, minus(f"{mean:+.2f}"), 10, FAINT))
        return Drawing(width, frame.bottom + 20 + MARGIN, tuple(shapes), title)

    return Figure(layout, layout)


def scatter(
    title: str,
    groups: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    x: tuple[str, float, float],
    y: tuple[str, float, float],
) -> Figure:
    """Points of several groups; axes are (name, lowest, highest)."""

    def layout(measure: Measure, width: float = WIDTH) -> Drawing:
        names = [clipped(name, 120, measure, 11) for name, _ in groups]
        beside = max((measure(name, 11, False) for name in names), default=0) + 30
        frame = Frame(MARGIN + 52, MARGIN + 28, width - 2 * MARGIN - 52 - beside, 220, x[1], x[2], y[1], y[2])
        shapes = [*_titled(title, measure, width), *frame.grid(x[0], y[0])]
        for n, (name, points) in enumerate(groups):
            colour = SERIES[n % len(SERIES)]
            for a, b in points:
                tip = f"{name}: {number(a)}, {number(b)}"
                shapes.append(Dot(frame.x(a), frame.y(b), 3, colour, 0.65, tip))
            shapes.append(Dot(frame.right + 18, frame.top + 8 + 18 * n, 4, colour))
            shapes.append(Text(frame.right + 27, frame.top + 12 + 18 * n, names[n], 11))
        return Drawing(width, frame.bottom + 40 + MARGIN, tuple(shapes), title)

    return Figure(layout, layout)
