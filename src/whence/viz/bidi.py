"""The order of pieces on a line: from left to right, from right to left, or one within the other."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Literal

__all__ = ["base_direction", "is_strong", "levels", "mirrored", "visual_order"]

Direction = Literal["ltr", "rtl"]
PAIRS = {a: b for x, y in ("()", "[]", "{}", "<>", "«»", "‹›") for a, b in ((x, y), (y, x))}


def _strong(text: str) -> Direction | None:
    """The direction of the first character that has one."""
    for char in text:
        kind = unicodedata.bidirectional(char)
        if kind in ("R", "AL"):
            return "rtl"
        if kind in ("L", "EN", "AN"):
            return "ltr"
    return None


def is_strong(text: str) -> bool:
    """Whether a text has a direction of its own."""
    return _strong(text) is not None


def base_direction(text: str) -> Direction:
    """The direction of a paragraph: that of its first letter.

    >>> base_direction("«שלום» world")
    'rtl'
    """
    for char in text:
        kind = unicodedata.bidirectional(char)
        if kind in ("R", "AL", "L"):
            return "ltr" if kind == "L" else "rtl"
    return "ltr"


def levels(pieces: Sequence[str], base: Direction) -> list[int]:
    """The embedding level of each piece: even runs to the right, odd to the left (Unicode annex 9, by pieces).

    Pieces without a direction of their own take that of both neighbours where these agree, else that of the line.
    """
    found = [_strong(piece) for piece in pieces]
    made: list[Direction] = []
    for n, own in enumerate(found):
        before = next((d for d in reversed(found[:n]) if d), base) if own is None else own
        after = next((d for d in found[n + 1 :] if d), base) if own is None else own
        made.append(before if before == after else base)
    if base == "ltr":
        return [0 if d == "ltr" else 1 for d in made]
    return [2 if d == "ltr" else 1 for d in made]


def visual_order(level: Sequence[int]) -> list[int]:
    """Indices from left to right: runs are turned round, from the highest level down to the lowest odd one (rule L2).

    >>> visual_order([1, 2, 2, 1])
    [3, 1, 2, 0]
    """
    order = list(range(len(level)))
    for turn in range(max(level, default=0), 0, -1):
        start = 0
        while start < len(order):
            stop = start
            while stop < len(order) and level[order[stop]] >= turn:
                stop += 1
            order[start:stop] = reversed(order[start:stop])
            start = max(stop, start + 1)
    return order


def mirrored(text: str) -> str:
    """Brackets as they look from the other side."""
    return "".join(PAIRS.get(char, char) for char in text)
