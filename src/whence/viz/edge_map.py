"""The strongest edges of a patching as a picture: nodes in the order in which a model computes them, from below."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from whence.results import Patching
from whence.viz.axes import MARGIN
from whence.viz.colour import shade
from whence.viz.drawing import FAINT, HAIR, Dot, Drawing, Line, Polyline, Shape, Text
from whence.viz.metrics import Measure, clipped
from whence.viz.terminal import printable
from whence.viz.token_text import legend

__all__ = ["SHOWN", "edge_map"]

SHOWN = 60
"""Edges that are drawn."""
ROW, TALLEST, WIDE = 30.0, 1400.0, 720.0
"""Pixels between two levels, of all levels together, and of all nodes of a level at most."""
BEND = 0.1
"""How far an edge that would go straight up swings out, as a part of its length: nodes on its way are none of its."""
WIDEST = 5.0
"""Pixels of the strongest edge."""


def edge_map(found: Patching, name: str, values: np.ndarray, said: list[str], measure: Measure) -> Drawing:
    """Heads of a layer stand beside each other; lines are the strongest edges, as wide as they are strong. Layers that
    none of them leads to are left out."""
    chosen = _strongest(values)
    used = {found.rows[a] for a, _ in chosen} | {found.columns[b] for _, b in chosen}
    levels = [level for level in _levels(found) if not used.isdisjoint(level) or level[0] in ("input", "target")]
    most = max(map(len, levels))
    step, wide = min(ROW, TALLEST / len(levels)), min(72.0, WIDE / most)
    names = [_shared(level) for level in levels]
    left = MARGIN + max(measure(text, 9, False) for text in names) + 14
    above = MARGIN + 44
    bottom = above + step * (len(levels) - 1)
    at = {
        node: (left + wide * (most / 2 + n - (len(level) - 1) / 2), bottom - step * row)
        for row, level in enumerate(levels)
        for n, node in enumerate(level)
    }
    width = max(left + wide * (most + 0.5), left + 300.0) + MARGIN
    title = clipped(f"{found.kind} by {name}: {printable(found.target)}", width - 2 * MARGIN, measure, 14, True)
    shapes: list[Shape] = [Text(MARGIN, MARGIN + 13, title, 14, bold=True)]
    for row, text in enumerate(names):
        y = bottom - step * row
        shapes.append(Line(left, y, left + wide * (most + 0.5), y, HAIR, 0.6))
        if step >= 9 or row % 4 == 0:
            shapes.append(Text(left - 8, y + 3.5, text, 9, FAINT, anchor="end"))
    full = max((abs(float(values[cell])) for cell in chosen), default=1.0) or 1.0
    for cell in reversed(chosen):  # the strongest on top
        value = float(values[cell])
        share = float(np.sqrt(abs(value) / full))
        line = _curve(at[found.rows[cell[0]]], at[found.columns[cell[1]]], step)
        tip = f"{found.name(*cell)} {value:+.4g}"
        shapes.append(Polyline(line, shade(np.sign(value) * max(0.3, share), 1.0), 0.5 + WIDEST * share, title=tip))
    for node, (x, y) in at.items():
        shapes.append(Dot(x, y, 4.5 if node in used else 1.5, "#57606a" if node in used else HAIR, title=node))
        if node in used and " head " in node and step >= 24:
            shapes.append(Text(x + 7, y - 5, node.rpartition(" ")[2], 9))
    strip, _ = legend(full, measure)
    shapes += [shape.moved(left, bottom + 22) for shape in strip]
    foot = bottom + 52
    for text in [*said, f"drawn: the {len(chosen)} strongest of {int(np.isfinite(values).sum()):,} edges"]:
        shapes.append(Text(left, foot, clipped(text, width - left - MARGIN, measure, 10), 10, FAINT))
        foot += 14
    return Drawing(width, foot + MARGIN, tuple(shapes), title)


def _curve(start: tuple[float, float], end: tuple[float, float], step: float) -> tuple[tuple[float, float], ...]:
    """A straight line; an arc where it would lead through the nodes in between."""
    (x, y), (x2, y2) = start, end
    if abs(x2 - x) > 1 or abs(y2 - y) < 1.5 * step:
        return start, end
    far = BEND * abs(y2 - y) + step / 2
    return tuple((x + far * 4 * t * (1 - t), y + (y2 - y) * t) for t in np.linspace(0, 1, 17).tolist())


def _levels(found: Patching) -> list[list[str]]:
    """Names of nodes that are computed together, the first ones first."""
    nodes = [*found.rows, *(name for name in found.columns if name not in found.rows)]
    return [list(own) for _, own in groupby(nodes, _shared_by)]


def _shared_by(name: str) -> str:
    return name.rpartition(" ")[0] if " head " in name else name


def _shared(level: list[str]) -> str:
    """What the nodes of a level are called together."""
    return f"{_shared_by(level[0])}s" if " head " in level[0] else level[0]


def _strongest(values: np.ndarray) -> list[tuple[int, int]]:
    sizes = np.nan_to_num(np.abs(values), nan=0.0).reshape(-1)
    order = [int(i) for i in np.argsort(-sizes, kind="stable")[:SHOWN] if sizes[i] > 0]
    return [divmod(i, values.shape[1]) for i in order]
