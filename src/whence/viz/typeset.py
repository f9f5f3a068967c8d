"""Tokens set into lines: word wrap, forced breaks, right-to-left lines, wide characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from whence.results import Explanation
from whence.viz import bidi
from whence.viz.metrics import Measure

__all__ = ["Piece", "Placed", "is_wide", "pieces", "spaced", "typeset"]

NOT_FIRST = frozenset("。、，．！？：；）」』】〉》〕’”％…・ーぁぃぅぇぉっゃゅょァィゥェォッャュョ,.!?:;)]}%»")
"""Characters that don't begin a line."""
JOINER = "\u200d"
SLIVER = "\u2009"
NARROWEST = 0.1
"""Of letters, in ems: a line holds no more of them, and no more of a long token are measured at a time."""
LEAST = 3
"""Letters that a line has room for beside its indentation."""


class Piece(NamedTuple):
    """A token as it is shown, with the white space before it."""

    gap: str
    text: str
    token: int


class Placed(NamedTuple):
    """A piece of a token on a line: its left edge and width in pixels, and the line's number."""

    token: int
    text: str
    x: float
    width: float
    line: int
    rtl: bool
    left: bool
    """Whether its left edge is the edge of a word, and …"""
    right: bool
    """… its right edge: subwords stand close together."""


def pieces(exp: Explanation) -> list[Piece]:
    """Tokens with the white space that stood between them in the text; special tokens stand apart."""
    made: list[Piece] = []
    end, glued, side = 0, True, ""
    for i, token in enumerate(exp.tokens):
        start, stop = exp.offsets[i] if exp.offsets else (0, 0)
        if exp.text is not None and exp.offsets and stop > start:
            gap = exp.text[end:start] if start > end else "" if glued else " "
            end, glued = max(end, stop), True
        else:
            gap, glued = "" if i == 0 or token[:1].isspace() or _same_word(exp, i) else " ", False
        here = exp.sides[i] if exp.sides else ""
        if here and side and here not in (side, "continuation"):  # another part begins; a continuation goes on
            gap = "\n"
        side = here or side
        made.append(Piece(gap, token.replace("\r", "").replace("\n", "⏎").replace("\t", "→"), i))
    return made


def _same_word(exp: Explanation, i: int) -> bool:
    """Whether a token goes on with the word of the one before it."""
    if not exp.word_ids or exp.word_ids[i] is None or exp.word_ids[i] != exp.word_ids[i - 1]:
        return False
    return not exp.sides or exp.sides[i] == exp.sides[i - 1]


def typeset(exp: Explanation, measure: Measure, size: float, width: float) -> tuple[list[Placed], int]:
    """Every token placed on lines of `width` pixels, and the number of lines."""
    placed: list[Placed] = []
    line = 0
    for paragraph, depth in _paragraphs(pieces(exp)):
        base = bidi.base_direction("".join(p.text for p in paragraph if not _is_special(exp, p.token)))
        indent = min(depth * measure(" ", size, False), width / 3) if base == "ltr" else 0.0
        indent = indent if width - indent >= LEAST * size else 0.0
        for run in _lines(paragraph, measure, size, width - indent):
            placed += (p._replace(x=p.x + indent) for p in _place(run, line, base, measure, size, width - indent))
            line += 1
    return placed, max(line, 1)


def _is_special(exp: Explanation, index: int) -> bool:
    return bool(exp.special) and exp.special[index]


def _paragraphs(found: Sequence[Piece]) -> Iterator[tuple[list[Piece], int]]:
    """Split where the text has line breaks, and after tokens that hold one; each with the spaces it begins with."""
    held: list[Piece] = []
    depth = 0
    for piece in found:
        if held and ("\n" in piece.gap or "⏎" in held[-1].text):
            yield held, depth
            before = held[-1].text.rpartition("⏎")[2] if "\n" not in piece.gap else ""
            depth = _spaces(before + piece.gap.rpartition("\n")[2])
            held = []
        if not held:
            depth += _spaces(piece.text[: len(piece.text) - len(piece.text.lstrip())]) if piece.text.strip() else 0
        held.append(piece)
    if held:
        yield held, depth


def _spaces(text: str) -> int:
    """How many columns white space takes, a tab four."""
    return sum(4 if char in "\t→" else 1 for char in text if char.isspace() or char == "→")


def _lines(paragraph: Sequence[Piece], measure: Measure, size: float, width: float) -> Iterator[list[Piece]]:
    """Greedy: as many unbreakable groups on a line as fit; a group longer than a line is cut."""
    space = measure(" ", size, False)
    line: list[Piece] = []
    used = 0.0
    for group in _groups(paragraph):
        gap = space if line and spaced(line[-1], group[0]) else 0.0
        length = sum(measure(_visible(p.text), size, False) for p in group)
        if line and used + gap + length > width:
            yield line
            line, used, gap = [], 0.0, 0.0
        for piece in group if length <= width else _cut(group, measure, size, width):
            room = measure(_visible(piece.text), size, False)
            if line and used + gap + room > width + 0.01:
                yield line
                line, used, gap = [], 0.0, 0.0
            line.append(piece)
            used, gap = used + gap + room, 0.0
    if line:
        yield line


def _groups(paragraph: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Pieces that stay on one line: words, and what must not be parted from them."""
    held: list[Piece] = []
    for piece in paragraph:
        if held and _may_break(held[-1], piece):
            yield held
            held = []
        held.append(piece)
    if held:
        yield held


def _may_break(before: Piece, after: Piece) -> bool:
    if spaced(before, after):
        return True
    last, first = before.text[-1:], after.text[:1]
    return (is_wide(last) or is_wide(first)) and first not in NOT_FIRST


def is_wide(char: str) -> bool:
    """Whether a character takes a whole em, as those of Chinese, Japanese and Korean do."""
    return bool(char) and unicodedata.east_asian_width(char) in "WF"


def _cut(group: Sequence[Piece], measure: Measure, size: float, width: float) -> Iterator[Piece]:
    """The group with tokens that are longer than a line cut into pieces that fit."""
    most = int(width / (NARROWEST * size)) + 1
    for piece in group:
        text, gap = piece.text, piece.gap
        while text and (len(text) > most or measure(text, size, False) > width):
            low, high = 1, min(len(text), most)
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if measure(text[:middle], size, False) <= width else (low, middle - 1)
            yield Piece(gap, text[:low], piece.token)
            text, gap = text[low:], ""
        if text or not piece.text:
            yield Piece(gap, text, piece.token)


def _place(
    run: Sequence[Piece], line: int, base: bidi.Direction, measure: Measure, size: float, width: float
) -> Iterator[Placed]:
    apart = [n > 0 and spaced(run[n - 1], p) for n, p in enumerate(run)] + [True]
    shown = _joined(_with_marks([_visible(p.text) for p in run], apart), apart)
    items: list[tuple[str, int | None]] = []  # spaces are items too: they have a place in the order of a line
    for n, text in enumerate(shown):
        items += [(" ", None)] if apart[n] else []
        items.append((text, n))
    widths = [measure(text, size, False) for text, _ in items]
    level = bidi.levels([text for text, _ in items], base)
    x = width - sum(widths) if base == "rtl" else 0.0
    for i in bidi.visual_order(level):
        text, owner = items[i]
        if owner is not None:
            n = owner
            rtl = level[i] % 2 == 1
            starts, ends = n == 0 or apart[n], apart[n + 1]
            left, right = (ends, starts) if rtl else (starts, ends)
            if rtl and not bidi.is_strong(text):
                text, rtl = bidi.mirrored(text), False  # alone it would be taken for left-to-right
            yield Placed(run[n].token, text, x, widths[i], line, rtl, left, right)
        x += widths[i]


def _visible(text: str) -> str:
    return text.strip() or "␣"


def spaced(before: Piece, after: Piece) -> bool:
    """Whether there is white space between two pieces."""
    return bool(after.gap) or after.text[:1].isspace() or before.text[-1:].isspace()


def _with_marks(texts: list[str], apart: Sequence[bool]) -> list[str]:
    """Marks that a token begins with (tanwin, accents) stand on the letter before them, where they belong: alone they
    would be drawn on a dotted circle. A token that has nothing else keeps a sliver to show its colour."""
    made = list(texts)
    owner = None  # the last token of this word that has letters
    for n, text in enumerate(texts):
        owner = None if apart[n] else owner
        rest = text.lstrip("".join(char for char in text if unicodedata.combining(char)))
        marks = text[: len(text) - len(rest)]
        if marks and owner is not None:
            made[owner] += marks
            made[n] = rest or SLIVER
        owner = n if _letters(rest) else owner
    return made


def _joined(texts: list[str], apart: Sequence[bool]) -> list[str]:
    """Arabic letters keep their joined forms where a word is cut into tokens."""
    made = list(texts)
    for n in range(1, len(texts)):
        if not apart[n] and _arabic(_letters(texts[n - 1])[-1:]) and _arabic(_letters(texts[n])[:1]):
            made[n - 1] += JOINER
            made[n] = JOINER + made[n]
    return made


def _letters(text: str) -> str:
    """Without marks above and below (tanwin, shadda, …), through which letters join."""
    return "".join(char for char in text if unicodedata.category(char) != "Mn")


def _arabic(char: str) -> bool:
    return bool(char) and unicodedata.bidirectional(char) == "AL"
