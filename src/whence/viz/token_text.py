"""Coloured text as a figure: the tokens of an explanation, or one block of them per method under each other."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from whence.errors import InputError
from whence.results import Comparison, Explanation
from whence.results.percents import percent
from whence.viz.axes import minus, signed
from whence.viz.colour import blend, contrast_text, scale_of, shade
from whence.viz.drawing import FAINT, INK, Drawing, Line, Raster, Rect, Shape, Text
from whence.viz.figure import Figure
from whence.viz.metrics import Measure, clipped, wrapped
from whence.viz.typeset import Placed, typeset

__all__ = ["legend", "merged", "tokens"]

MARGIN = 22.0
LONG = 400
"""Tokens from which on the text is set small and wide, and its strongest tokens are named above it."""
PLAIN = 1500
"""Tokens from which on boxes have no round corners and no tips: files stay small."""
PRINTED = 12.0
"""Pixels of letters in a column of a paper."""
WHITE = "#ffffff"


def tokens(
    result: Explanation | Comparison,
    *,
    width: float | None = None,
    size: float | None = None,
    scale: Literal["own", "shared"] | float = "own",
    words: bool = False,
) -> Figure:
    """The text, each token on its colour: orange speaks for the target, blue against it.

    `width` and `size` (of the letters) are in pixels. In a comparison each method has its own scale, because methods
    differ in their units; `scale="shared"` gives all the same, a number sets it. `words` merges tokens to words.
    """
    found = result.explanations if isinstance(result, Comparison) else (result,)
    for exp in found:
        if exp.is_image or not exp.tokens:
            raise InputError("this explanation has no tokens: use whence.viz.overlay(exp) or whence.viz.bars(exp)")
    if words:
        found = tuple(merged(exp) for exp in found)
    long = max(len(exp) for exp in found) > LONG
    wide, letters = width or (960.0 if long else 720.0), size or (11.0 if long else 15.0)
    if scale == "shared":
        scale = scale_of(np.concatenate([exp.scores for exp in found]))
    given = None if scale == "own" else float(scale)
    if isinstance(result, Comparison):
        return Figure(
            lambda measure: _comparison(result, found, measure, wide, letters, given),
            lambda measure, room: _comparison(result, found, measure, room, size or PRINTED, given),
        )
    return Figure(
        lambda measure: _single(found[0], measure, wide, letters, given),
        lambda measure, room: _single(found[0], measure, room, size or PRINTED, given),
    )


def merged(exp: Explanation) -> Explanation:
    """The same explanation by words, scores summed."""
    words = exp.words()
    spans = [(exp.offsets[w.tokens[0]][0], exp.offsets[w.tokens[-1]][1]) if exp.offsets else (0, 0) for w in words]
    return replace(
        exp,
        scores=np.array([w.score for w in words]),
        tokens=tuple(w.text for w in words),
        offsets=tuple(spans),
        word_ids=tuple(range(len(words))),
        special=tuple(exp.special[w.tokens[0]] for w in words) if exp.special else (),
        sides=tuple(exp.sides[w.tokens[0]] for w in words) if exp.sides else (),
        parts=(),
    )


# -- one explanation -----------------------------------------------------------------------------------------------


def _single(exp: Explanation, measure: Measure, width: float, size: float, scale: float | None) -> Drawing:
    room = width - 2 * MARGIN
    scale = scale_of(exp.scores) if scale is None else scale
    shapes, top = _heading(exp, measure, room)
    block, height = _block(exp, measure, size, room, scale)
    shapes += [shape.moved(0, top + 14) for shape in block]
    top += 14 + height + 16
    foot, height = _foot(exp, scale, measure, room)
    shapes += [shape.moved(0, top) for shape in foot]
    title = f"{exp.target} by {exp.method}: {' '.join(exp.tokens[:40])}"
    placed = tuple(shape.moved(MARGIN, MARGIN) for shape in shapes)
    return Drawing(width, top + height + 2 * MARGIN, placed, title)


def _heading(exp: Explanation, measure: Measure, room: float) -> tuple[list[Shape], float]:
    """What is explained, how, and what was predicted; of long texts the strongest tokens as well."""
    score = minus(f"  {exp.target_score:+.4g}") if np.isfinite(exp.target_score) else ""
    title = clipped(f"{exp.target or 'target'}{score}", room * 0.62, measure, 15, True)
    facts = f"by {exp.method}"
    if exp.prediction.labels:
        share = f" {percent(exp.prediction.probabilities[0], 1)}" if exp.prediction.probabilities else ""
        facts += f"   ·   predicted: {exp.prediction.label}{share}"
    left = measure(title, 15, True) + 14
    shapes: list[Shape] = [
        Text(0, 13, title, 15, bold=True),
        Text(left, 13, clipped(facts, room - left, measure, 12), 12, FAINT),
    ]
    top = 20.0
    if len(exp) > LONG:
        order = np.argsort(-np.abs(exp.scores), kind="stable")[:8]
        named = (
            "strongest of "
            + f"{len(exp):,}: "
            + ",  ".join(f"{exp.tokens[i].strip()} {signed(exp.scores[i])}" for i in order)
        )
        shapes.append(Text(0, top + 12, clipped(named, room, measure, 11), 11, FAINT))
        top += 16
    return shapes, top


def _foot(exp: Explanation, scale: float, measure: Measure, room: float) -> tuple[list[Shape], float]:
    shapes, right = legend(scale, measure)
    notes = [minus(f"left out: {exp.left_out:+.4g}")] if exp.left_out else []
    notes += [minus(f"receipt: {exp.conservation}")] if exp.conservation else []
    beside = right + 24
    if notes and measure("   ".join(notes), 10, False) <= room - beside:
        shapes.append(Text(room, 9, "   ".join(notes), 10, FAINT, "end"))
        return shapes, 14
    lines = [line for note in notes for line in wrapped(note, room, measure, 10)]
    shapes += [Text(0, 28 + 14 * n, line, 10, FAINT) for n, line in enumerate(lines)]
    return shapes, 14 + 14 * len(lines) + (4 if lines else 0)


def legend(scale: float | None, measure: Measure, bar: float = 120.0) -> tuple[list[Shape], float]:
    """The scale as a strip of colour with its ends named, and how wide it is."""
    low, high = ("against", "for") if scale is None else (f"−{scale:.3g} against", f"for +{scale:.3g}")
    left = measure(low, 10, False) + 6
    strip = np.array([[blend(v, 1.0) for v in np.linspace(-1, 1, 65)]], dtype=np.uint8)
    shapes: list[Shape] = [
        Text(0, 9, low, 10, FAINT),
        Raster(left, 1, bar, 8, strip),
        Line(left + bar / 2, 0, left + bar / 2, 10, FAINT),
        Text(left + bar + 6, 9, high, 10, FAINT),
    ]
    return shapes, left + bar + 6 + measure(high, 10, False)


# -- several -------------------------------------------------------------------------------------------------------


def _comparison(
    whole: Comparison, found: Sequence[Explanation], measure: Measure, width: float, size: float, scale: float | None
) -> Drawing:
    room = width - 2 * MARGIN
    several = len(whole.targets) > 1
    column = min(max(measure(exp.method, 13, True) for exp in found) + 20, room * 0.3)
    if several:
        column = max(column, min(max(measure(t, 11, False) for t in whole.targets) + 20, room * 0.3))
    head = "  ·  ".join(whole.targets)
    guess = whole[0].prediction
    share = f" {percent(guess.probabilities[0], 1)}" if guess.probabilities else ""
    facts = f"predicted: {guess.label}{share}" if guess.labels else ""
    title = clipped(head, room * 0.62, measure, 15, True)
    shapes: list[Shape] = [Text(0, 13, title, 15, bold=True)]
    left = measure(title, 15, True) + 14
    shapes.append(Text(left, 13, clipped(facts, room - left, measure, 12), 12, FAINT))
    top = 26.0
    for exp in found:
        own = scale_of(exp.scores) if scale is None else scale
        shapes.append(Line(0, top, room, top))
        block, height = _block(exp, measure, size, room - column, own)
        shapes += [shape.moved(column, top + 8) for shape in block]
        base = top + 8 + 0.5 * _leading(size) + 0.33 * size
        shapes.append(Text(0, base, clipped(exp.method, column - 8, measure, 13, True), 13, bold=True))
        note = exp.target if several else f"±{own:.2g}" if scale is None else ""
        if note:
            shapes.append(Text(0, base + 14, clipped(note, column - 8, measure, 10), 10, FAINT))
            height = max(height, base + 18 - top - 8)
        top += height + 16
    shapes.append(Line(0, top, room, top))
    strip, right = legend(scale, measure)
    shapes += [shape.moved(0, top + 14) for shape in strip]
    if scale is None:
        shapes.append(Text(right + 16, top + 23, "each method on its own scale", 10, FAINT))
    title = f"{', '.join(whole.methods)} for {', '.join(whole.targets)}: {' '.join(found[0].tokens[:40])}"
    placed = tuple(shape.moved(MARGIN, MARGIN) for shape in shapes)
    return Drawing(width, top + 28 + 2 * MARGIN, placed, title)


# -- the text ------------------------------------------------------------------------------------------------------


def _leading(size: float) -> float:
    return round(size * 1.75)


def _block(exp: Explanation, measure: Measure, size: float, room: float, scale: float) -> tuple[list[Shape], float]:
    """Boxes, then text, each ordered by colour so that formats can share it."""
    placed, lines = typeset(exp, measure, size, room)
    fills = [shade(float(score), scale) for score in exp.scores]
    plain = len(exp) > PLAIN
    leading = _leading(size)
    boxes = [_box(exp, p, fills[p.token], leading, size, plain) for p in placed if fills[p.token] != WHITE or not plain]
    texts = _runs(placed, fills, size, leading)
    boxes.sort(key=lambda box: box.fill != WHITE)  # white ones only carry tips: they lie beneath
    if plain:
        boxes.sort(key=lambda box: box.fill)
    texts.sort(key=lambda text: (text.fill != INK, text.rtl))
    return [*boxes, *texts], lines * leading


def _box(exp: Explanation, p: Placed, fill: str, leading: float, size: float, plain: bool) -> Rect:
    height = round(size * 1.4)
    left, right = (1.5 if p.left else 0.0), (1.5 if p.right else 0.0)
    top = p.line * leading + (leading - height) / 2
    tip = "" if plain else f"{exp.tokens[p.token].strip()} {exp.scores[p.token]:+.4g}"
    return Rect(p.x - left, top, p.width + left + right, height, fill, 0 if plain else 2, title=tip)


def _runs(placed: Sequence[Placed], fills: Sequence[str], size: float, leading: float) -> list[Text]:
    """One text for the tokens of a word, and for neighbours that have no box to agree with."""

    def ink(p: Placed) -> str:
        fill = fills[p.token]
        back = tuple(int(fill[i : i + 2], 16) for i in (1, 3, 5))
        return INK if contrast_text(back) == "#000000" else WHITE  # type: ignore[arg-type]

    made: list[Text] = []
    for _, group in itertools.groupby(placed, lambda p: p.line):
        run: list[Placed] = []
        for p in group:
            if run and not (_joins(run[-1], p, fills) and ink(run[-1]) == ink(p)):
                made.append(_text(run, ink(run[0]), size, leading))
                run = []
            run.append(p)
        if run:
            made.append(_text(run, ink(run[0]), size, leading))
    return made


def _joins(before: Placed, after: Placed, fills: Sequence[str]) -> bool:
    if before.rtl or after.rtl:
        return False
    return not before.right or fills[before.token] == fills[after.token] == WHITE


def _text(run: Sequence[Placed], fill: str, size: float, leading: float) -> Text:
    text = "".join(p.text + (" " if p.right and p is not run[-1] else "") for p in run)
    y = run[0].line * leading + leading / 2 + 0.35 * size
    if any(unicodedata.bidirectional(char) == "AL" for char in text):  # fitting would tear joined letters apart
        return Text(run[0].x + run[0].width / 2, y, text, size, fill, "middle", rtl=True)
    return Text(run[0].x, y, text, size, fill, width=run[-1].x + run[-1].width - run[0].x, rtl=run[0].rtl)
