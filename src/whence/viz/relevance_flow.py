"""The flow of relevance through a model: what each layer hands down to the inputs, and what it keeps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from rich.text import Text as RichText

from whence.results.audit_report import Audit, AuditRow
from whence.results.showing import draws
from whence.viz.axes import MARGIN, Frame, alike, minus, signed
from whence.viz.colour import sink_colours
from whence.viz.drawing import FAINT, HAIR, Drawing, Line, Polygon, Rect, Shape, Text
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, clipped, wrapped
from whence.viz.ranking import beside

__all__ = ["Level", "conservation_flow", "levels", "plain", "terminal"]

WIDTH = 680.0
KEYS = 13.0
"""Pixels of a line of keys."""
BAND = "#f4b183"
LOOKED_UP = re.compile(r"embed|wte|wpe|position|patch", re.IGNORECASE)


class Level(NamedTuple):
    """A layer: what comes into it from above, what it keeps by kind, and what it hands down."""

    name: str
    carried: float
    sinks: dict[str, float]
    below: float


def levels(audit: Audit) -> list[Level]:
    """From the target down: the head, the numbered layers from last to first, the embeddings.

    below = carried - sum of sinks; the last `below` is the relevance of the inputs plus the audit's error.
    """
    kept: dict[tuple[int, str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in audit.rows:
        for kind, amount in row.sinks.items():
            if kind != "unruled":
                kept[_place(row, kind)][kind] += amount
        if row.layer and (place := _place(row, ""))[0] == 1:
            kept[place]  # a layer that keeps nothing is a layer still
    made, carried = [], audit.target_score
    for place in sorted(kept, reverse=True):
        sinks = dict(kept[place])
        below = carried - sum(sinks.values())
        made.append(Level(_name(place, kept), carried, sinks, below))
        carried = below
    return made


def _place(row: AuditRow, kind: str) -> tuple[int, str, int]:
    """Where a module stands: 0 below the layers, 1 in one of them, 2 above; the stack; the layer's number."""
    numbered = re.search(r"^(.*?)\.?(\d+)(?:\.|$)", row.layer)
    if numbered:
        stack = numbered[1]
        return 1, f"{1 if 'decoder' in stack else 0}{stack}", int(numbered[2])
    return (0, "", 0) if kind == "position" or LOOKED_UP.search(row.layer) else (2, "", 0)


def _name(place: tuple[int, str, int], every: dict[tuple[int, str, int], dict[str, float]]) -> str:
    if place[0] != 1:
        return "head" if place[0] else "embeddings"
    stacks = {p[1] for p in every if p[0] == 1}
    return f"layer {place[2]}" if len(stacks) == 1 else f"{place[1][1:]}.{place[2]}"


@figure_of(Audit)
def conservation_flow(audit: Audit, *, width: float = WIDTH) -> Figure:
    """How the explained score runs down to the inputs, and what biases, positions and the like absorb on the way."""
    return Figure(lambda measure: _flow(audit, measure, width), lambda measure, room: _flow(audit, measure, room))


@draws(Audit, "txt")
def plain(audit: Audit) -> str:
    """The tables by function and by layer."""
    return str(audit)


@draws(Audit, "terminal")
def terminal(audit: Audit) -> RichText:
    return RichText(str(audit))


def _flow(audit: Audit, measure: Measure, width: float) -> Drawing:
    found = levels(audit)
    step = 30.0 if len(found) <= 16 else 16.0
    kinds = list(dict.fromkeys(kind for level in found for kind in level.sinks))
    colours = sink_colours(kinds)
    names = [clipped(level.name, 150, measure, 11) for level in found]
    left = MARGIN + max([measure(n, 11, False) for n in names] + [measure("target", 11, True)]) + 12
    room = width - MARGIN - left - 40
    reached = [audit.target_score, *(level.below for level in found)]
    lines = _key_lines(colours, room * 0.44, measure)
    top = MARGIN + 66 + KEYS * (len(lines) - 1)
    carried = Frame(
        left, top, room * 0.56, step * (len(found) + 2), min(0.0, *reached) * 1.15, max(0.0, *reached) * 1.15 or 1.0
    )
    widest = max((abs(v) for level in found for v in _ends(level.sinks)), default=0.0) or 1.0
    kept = Frame(carried.right + 40, top, room * 0.44, carried.height, -widest * 1.5, widest * 1.5)
    title = clipped(minus(f"{audit.target}  {audit.target_score:+.4g}"), width * 0.5, measure, 15, True)
    behind = MARGIN + measure(title, 15, True) + 14
    facts = clipped(f"{audit.model}   ·   recipe {audit.recipe}", width - behind - MARGIN, measure, 12)
    above = MARGIN + 40
    shapes: list[Shape] = [
        Text(MARGIN, MARGIN + 13, title, 15, bold=True),
        Text(behind, MARGIN + 13, facts, 12, FAINT),
        Text(carried.left, above, "carried down to the inputs", 11, bold=True),
        Text(kept.left, above, "absorbed on the way", 11, bold=True),
    ]
    shapes += _keys(lines, colours, kept.left, top - 9 - KEYS * (len(lines) - 1), measure)
    shapes += _band(carried, reached, step)
    spelled = alike((sum(level.sinks.values()) for level in found), plus=True)
    for n, (level, name) in enumerate(zip(found, names, strict=True)):
        y = top + step * (n + 1)
        shapes.append(Text(left - 12, y + step / 2 + 4, name, 11, anchor="end"))
        shapes.append(Line(left, y, kept.right, y, HAIR, 0.6))
        shapes += _sinks(level, kept, y, step, colours, spelled[n])
    for n, (name, value) in enumerate((("target", audit.target_score), ("inputs", audit.inputs))):
        y = top + step * (n * (len(found) + 1)) + step / 2 + 4
        shapes.append(Text(left - 12, y, name, 11, anchor="end", bold=True))
        shapes.append(Text(carried.x(max(value, 0.0)) + 6, y, signed(value), 11, bold=True))
    shapes.append(Line(left, top + step * (len(found) + 1), kept.right, top + step * (len(found) + 1), HAIR, 0.6))
    shapes.append(Line(kept.x(0), top + step, kept.x(0), top + step * (len(found) + 1), FAINT))
    receipt = wrapped(minus(f"receipt: {audit.conservation}"), width - 2 * MARGIN, measure, 10)
    shapes += [Text(MARGIN, carried.bottom + 20 + 14 * n, line, 10, FAINT) for n, line in enumerate(receipt)]
    return Drawing(
        width, carried.bottom + 12 + 14 * len(receipt) + MARGIN, tuple(shapes), f"flow of relevance of {audit.target}"
    )


def _band(frame: Frame, reached: list[float], step: float) -> list[Shape]:
    """The stream: as wide at each height as what is carried there."""
    edge = [(frame.x(reached[0]), frame.top)]
    for n, value in enumerate(reached):
        edge.append((frame.x(value), frame.top + step * (n + 1)))
    edge.append((frame.x(reached[-1]), frame.bottom))
    zero = frame.x(0.0)
    tip = " → ".join(f"{v:+.3g}" for v in reached)
    band = Polygon(((zero, frame.top), *edge, (zero, frame.bottom)), BAND, title=tip)
    return [band, Line(zero, frame.top, zero, frame.bottom, FAINT)]


def _ends(sinks: dict[str, float]) -> tuple[float, float]:
    """How far the stacked bars of a layer reach to either side."""
    return sum(v for v in sinks.values() if v < 0), sum(v for v in sinks.values() if v > 0)


def _sinks(level: Level, frame: Frame, y: float, step: float, colours: dict[str, str], said: str) -> list[Shape]:
    bar = step * 0.5
    ends = {-1: 0.0, 1: 0.0}
    made: list[Shape] = []
    for kind, amount in level.sinks.items():
        way = 1 if amount >= 0 else -1
        start, stop = frame.x(ends[way]), frame.x(ends[way] + amount)
        ends[way] += amount
        tip = f"{level.name}: {kind} {amount:+.4g}"
        long = max(abs(stop - start), 0.5)
        made.append(Rect(min(start, stop), y + (step - bar) / 2, long, bar, colours[kind], title=tip))
    total = sum(level.sinks.values())
    if level.sinks:
        place, anchor = beside(frame.x(ends[1 if total >= 0 else -1]), total)
        made.append(Text(place, y + step / 2 + 3.5, said, 10, FAINT, anchor))
    return made


def _key_lines(colours: Iterable[str], room: float, measure: Measure) -> list[list[str]]:
    """Kinds of sinks in lines that end where the bars do."""
    lines: list[list[str]] = [[]]
    used = 0.0
    for kind in colours:
        wide = 25 + measure(kind, 10, False)
        if lines[-1] and used + wide - 12 > room:
            lines, used = [*lines, []], 0.0
        lines[-1].append(kind)
        used += wide
    return lines


def _keys(lines: list[list[str]], colours: dict[str, str], left: float, top: float, measure: Measure) -> list[Shape]:
    """What the colours stand for."""
    made: list[Shape] = []
    for n, line in enumerate(lines):
        x, y = left, top + KEYS * n
        for kind in line:
            made += [Rect(x, y - 8, 9, 9, colours[kind]), Text(x + 13, y, kind, 10, FAINT)]
            x += 25 + measure(kind, 10, False)
    return made
