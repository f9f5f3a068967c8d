"""Ranked bars: which features matter most, by the size of their scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whence.errors import InputError
from whence.results import Explanation
from whence.results.percents import percent
from whence.viz.axes import MARGIN, Frame, alike, minus, noted, signed
from whence.viz.colour import AGAINST, FOR
from whence.viz.drawing import FAINT, Anchor, Drawing, Rect, Shape, Text
from whence.viz.figure import Figure
from whence.viz.metrics import Measure, clipped
from whence.viz.token_text import merged

__all__ = ["bars", "beside", "headed", "named_scores", "subtitle"]

ORANGE, BLUE = ("#{:02x}{:02x}{:02x}".format(*colour) for colour in (FOR, AGAINST))
STEP, BAR = 23.0, 15.0


def bars(exp: Explanation, *, top: int = 15, words: bool = False, width: float = 560.0) -> Figure:
    """The `top` features of largest score, strongest first, orange for the target and blue against it."""
    return Figure(
        lambda measure: _bars(exp, top, words, width, measure),
        lambda measure, room: _bars(exp, top, words, room, measure),
    )


def named_scores(exp: Explanation, words: bool) -> list[tuple[str, float]]:
    """Every feature by the name it has in a figure; one that occurs more than once has its number behind it."""
    if words:
        exp = merged(exp)
    if not len(exp):
        raise InputError("there is nothing to draw: the explanation has no features")
    names = [exp.feature(i).strip() or "␣" for i in range(len(exp))]
    many = {name for name in names if names.count(name) > 1} if len(names) <= 2000 else set()
    shown = [f"{name} ({i + 1})" if name in many else name for i, name in enumerate(names)]
    return list(zip(shown, (float(s) for s in exp.scores.reshape(-1)), strict=True))


def subtitle(exp: Explanation) -> str:
    parts = [f"by {exp.method}"] if exp.method else []
    if exp.prediction.labels:
        share = f" {percent(exp.prediction.probabilities[0], 1)}" if exp.prediction.probabilities else ""
        parts.append(f"predicted: {exp.prediction.label}{share}")
    return "   ·   ".join(parts)


def title_of(exp: Explanation) -> str:
    score = minus(f"  {exp.target_score:+.4g}") if np.isfinite(exp.target_score) else ""
    return f"{exp.target or 'target'}{score}"


def headed(exp: Explanation, measure: Measure, room: float) -> list[Shape]:
    """Title and subtitle on one line."""
    title = clipped(title_of(exp), room * 0.62, measure, 15, True)
    left = measure(title, 15, True) + 14
    facts = clipped(subtitle(exp), room - left, measure, 12)
    return [Text(MARGIN, MARGIN + 13, title, 15, bold=True), Text(MARGIN + left, MARGIN + 13, facts, 12, FAINT)]


def beside(end: float, amount: float) -> tuple[float, Anchor]:
    """Where the number of a bar stands: outside, at its end."""
    return (end + 5, "start") if amount >= 0 else (end - 5, "end")


def _bars(exp: Explanation, top: int, words: bool, width: float, measure: Measure) -> Drawing:
    ranked = sorted(named_scores(exp, words), key=lambda item: -abs(item[1]))
    shown, rest = ranked[:top], ranked[top:]
    labels = [clipped(name, width * 0.3, measure, 12) for name, _ in shown]
    values = np.array([score for _, score in shown])
    column = max(measure(label, 12, False) for label in labels)
    spelled = alike(values, plus=True)
    room = max(measure(text, 10, False) for text in spelled) + 8
    left = MARGIN + column + 10 + (room if values.min() < 0 else 0)
    right = width - MARGIN - (room if values.max() > 0 else 0)
    frame = Frame(left, MARGIN + 32, right - left, STEP * len(shown), min(values.min(), 0), max(values.max(), 0))
    if frame.x0 == frame.x1:
        frame = replace(frame, x1=1.0)
    shapes = [*headed(exp, measure, width - 2 * MARGIN), *frame.grid_across()]
    zero = frame.x(0)
    for n, (label, score) in enumerate(zip(labels, values, strict=True)):
        y, end = frame.top + n * STEP + (STEP - BAR) / 2, frame.x(score)
        fill = ORANGE if score >= 0 else BLUE
        tip = f"{shown[n][0]} {score:+.4g}"
        shapes.append(Rect(min(zero, end), y, max(abs(end - zero), 0.5), BAR, fill, title=tip))
        shapes.append(Text(MARGIN + column, y + BAR - 3.5, label, 12, anchor="end"))
        away, anchor = beside(end, score)
        shapes += noted(away, y + BAR - 4, spelled[n], measure, anchor)
    height = frame.bottom + 20
    if rest:
        others = sum(score for _, score in rest)
        note = f"{len(rest):,} others together {signed(others)}"
        shapes.append(Text(MARGIN, height + 12, note, 10, FAINT))
        height += 16
    return Drawing(width, height + MARGIN, tuple(shapes), f"strongest features for {exp.target} by {exp.method}")
