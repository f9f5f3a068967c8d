"""A waterfall: how the explained score is made up, from what no input accounts for, one feature after the other."""

from __future__ import annotations

from typing import NamedTuple

from whence.results import Explanation
from whence.viz.axes import MARGIN, Frame, alike, minus, noted
from whence.viz.drawing import HAIR, INK, Drawing, Line, Polygon, Shape, Text
from whence.viz.figure import Figure
from whence.viz.metrics import Measure, clipped
from whence.viz.ranking import BLUE, ORANGE, beside, headed, named_scores

__all__ = ["steps", "waterfall"]

STEP, BAR, TIP = 25.0, 17.0, 5.0
SINK = "#8c959f"


class Step(NamedTuple):
    """One bar: its name, how far it goes, and whether it is a feature or a sink."""

    name: str
    amount: float
    sink: bool = False


def waterfall(exp: Explanation, *, top: int = 10, words: bool = False, width: float = 640.0) -> Figure:
    """From zero up to the explained score: sinks of the receipt first, in grey, then the `top` features by size."""
    return Figure(
        lambda measure: _waterfall(exp, top, words, width, measure),
        lambda measure, room: _waterfall(exp, top, words, room, measure),
    )


def steps(exp: Explanation, top: int = 10, words: bool = False) -> list[Step]:
    """What the score is made of, from the bottom of the figure to its top; the last step ends at the score.

    sinks (biases, positions, …) + what was left out + error + other features + features = target

    A method without a receipt has one step for what it leaves unexplained: for Shapley values and integrated
    gradients that is the base value.
    """
    ranked = sorted(named_scores(exp, words), key=lambda item: -abs(item[1]))
    features = [Step(name, score) for name, score in ranked[:top]]
    made: list[Step] = []
    total = sum(score for _, score in ranked)
    target = exp.target_score if exp.target_score == exp.target_score else total + exp.left_out
    receipt = exp.conservation
    if receipt is not None and receipt.complete:
        made += [Step(kind, amount, True) for kind, amount in receipt.sinks.items() if kind != "unruled"]
    named = sum(step.amount for step in made)
    if exp.left_out:
        made.append(Step("left out", exp.left_out, True))
        named += exp.left_out
    rest = target - named - total
    if abs(rest) > 1e-3 * max(abs(target), abs(total), 1e-12):
        made.append(Step("error" if receipt is not None and receipt.complete else "not from the input", rest, True))
    if len(ranked) > top:
        made.append(Step(f"{len(ranked) - top:,} other features", sum(score for _, score in ranked[top:])))
    return [*made, *reversed(features)]


def _waterfall(exp: Explanation, top: int, words: bool, width: float, measure: Measure) -> Drawing:
    made = steps(exp, top, words)
    reached = [0.0]
    for step in made:
        reached.append(reached[-1] + step.amount)
    labels = [clipped(step.name, width * 0.3, measure, 12) for step in made]
    column = max(measure(label, 12, False) for label in labels)
    spelled = alike((step.amount for step in made), plus=True)
    room = max(measure(text, 11, False) for text in spelled) + 12
    left = MARGIN + column + 12
    low, high = min(reached), max(reached)
    margin = room / max(width - MARGIN - left - 2 * room, 50) * ((high - low) or 1)
    frame = Frame(left, MARGIN + 50, width - MARGIN - left, STEP * len(made), low - margin, high + margin)
    shapes: list[Shape] = [*headed(exp, measure, width - 2 * MARGIN), *frame.grid_across()]
    for n, step in enumerate(reversed(made)):
        start, stop = reached[len(made) - 1 - n], reached[len(made) - n]
        y = frame.top + n * STEP + (STEP - BAR) / 2
        fill = SINK if step.sink else ORANGE if step.amount >= 0 else BLUE
        shapes.append(_arrow(frame.x(start), frame.x(stop), y, fill, f"{step.name} {step.amount:+.4g}"))
        shapes.append(Text(MARGIN + column, y + BAR - 4.5, labels[len(made) - 1 - n], 12, anchor="end"))
        if n + 1 < len(made):
            shapes.append(Line(frame.x(start), y + BAR, frame.x(start), y + STEP, HAIR))
        end, anchor = beside(frame.x(stop), step.amount)
        shapes += noted(end, y + BAR - 5, spelled[len(made) - 1 - n], measure, anchor)
    goal = frame.x(reached[-1])
    shapes.append(Line(goal, frame.top - 4, goal, frame.top + (STEP - BAR) / 2, INK))
    shapes.append(Text(goal, frame.top - 8, minus(f"{reached[-1]:+.4g}"), 11, anchor="middle"))
    return Drawing(width, frame.bottom + 20 + MARGIN, tuple(shapes), f"how {exp.target} is made up, by {exp.method}")


def _arrow(start: float, stop: float, y: float, fill: str, title: str) -> Polygon:
    """A bar with a point in the direction it goes."""
    way = 1 if stop >= start else -1
    neck = stop - way * min(TIP, abs(stop - start))
    low = y + BAR
    if abs(stop - start) < 1:
        stop = start + way
        neck = start
    points = ((start, y), (neck, y), (stop, y + BAR / 2), (neck, low), (start, low))
    return Polygon(points, fill, title=title)
