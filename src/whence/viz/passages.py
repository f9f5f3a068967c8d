"""The text of a trace as people read it: whose words the prompt is made of, and what was written behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from whence.results import Trace
from whence.viz.typeset import pieces

__all__ = ["WRITTEN", "Cell", "Passage", "amounts", "named", "others", "passages", "spoken", "strongest", "unmarked"]

WRITTEN = "written"
"""What the passage of the model's own words is called."""
TEMPLATE = "template"
MARKER = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]")
"""How tokens such as <|im_end|> read. The last written token has no column, so nobody says that it is special."""
NAMES = {"patch": "picture", "pixel": "picture", "frame": "sound"}


class Cell(NamedTuple):
    """What is coloured as one: a unit of the prompt, or a row of the trace."""

    gap: str
    """The white space before it."""
    text: str
    start: int
    """Its columns: the first, and …"""
    stop: int
    """… the one behind the last; none for what was written last."""
    row: int | None
    """Which row it is; None in the prompt."""
    special: bool


class Passage(NamedTuple):
    """Neighbours that one side has said: a system prompt, a message, a document, what was written."""

    name: str
    cells: tuple[Cell, ...]

    @property
    def quiet(self) -> bool:
        """Whether nobody said it: what a template puts around messages."""
        return self.name == TEMPLATE


def passages(trace: Trace) -> list[Passage]:
    """All text of a trace, in its order; features that are no text (see `others`) are left out."""
    whole = trace.whole
    text = _text_columns(trace)
    own = {column for a, b in trace.places for column in range(a, b)}
    found: list[tuple[str, list[Cell]]] = []
    # where nobody knows the places of tokens, those that bring their white space along are the text as it was
    placed = any(b > a for a, b in whole.offsets)
    is_laid_out = not placed and any(
        token[:1].isspace() for token, mine in zip(whole.tokens, text, strict=True) if mine
    )
    for piece in pieces(whole) if whole.tokens else []:
        column = piece.token
        if column in own or not text[column]:
            continue
        side = whole.sides[column] if whole.sides else "prompt"
        special = bool(whole.special and whole.special[column])
        if not found or found[-1][0] != side:
            found.append((side, []))
        gap = "" if is_laid_out else piece.gap
        read = piece.text if side == TEMPLATE else _line_ends(piece.text)
        if placed and column and _within(whole.offsets[column], whole.offsets[column - 1]):
            read = ""  # several tokens may be one character, which stands with the first of them
        gap = gap.replace("\n", " ") if side == TEMPLATE else gap
        found[-1][1].append(_cell(gap, read, column, column + 1, None, special))
    return [_passage(name, cells) for name, cells in [*found, (WRITTEN, list(_written(trace)))]]


def _within(span: tuple[int, int], other: tuple[int, int]) -> bool:
    return other[0] <= span[0] < span[1] <= other[1]


def _passage(name: str, cells: Sequence[Cell]) -> Passage:
    """Neighbours as they are shown: no line begins with a space."""
    return Passage(name, tuple(cell if n else cell._replace(gap="") for n, cell in enumerate(cells)))


def _text_columns(trace: Trace) -> np.ndarray:
    parts = trace.whole.parts
    if not parts:
        return np.ones(len(trace.whole), dtype=bool)
    return np.concatenate([np.full(part.count, part.kind == "token") for part in parts])


def _written(trace: Trace) -> Iterator[Cell]:
    special = trace.whole.special
    for row, (text, (a, b)) in enumerate(zip(trace.written, trace.places, strict=True)):
        is_marker = all(special[a:b]) if special and b > a else bool(MARKER.fullmatch(text.strip()))
        yield _cell("", _line_ends(text.replace("\r", "").replace("\t", "→")), a, b, row, is_marker)


def _cell(gap: str, text: str, start: int, stop: int, row: int | None, special: bool) -> Cell:
    """The space that a token begins with stands before it: it is not coloured."""
    read = text.lstrip(" ") or text
    return Cell(gap + text[: len(text) - len(read)], read, start, stop, row, special)


def _line_ends(text: str) -> str:
    """Line breaks that are seen, and break."""
    return text.replace("\n", "⏎").replace("⏎", "⏎\n")


def others(trace: Trace) -> list[tuple[str, slice, str]]:
    """What is no text: name, columns and source of each picture or sound."""
    made, start = [], 0
    for part in trace.whole.parts:
        if part.kind != "token":
            made.append((NAMES.get(part.kind, part.kind), slice(start, start + part.count), part.source))
        start += part.count
    return made


def amounts(trace: Trace, scores: np.ndarray) -> dict[str, float]:
    """How much of these scores each passage has, and what is no text."""
    flat = np.nan_to_num(scores.reshape(-1).astype(np.float64))
    made: dict[str, float] = {}
    for name, cells in passages(trace):
        columns = sorted({column for cell in cells for column in range(cell.start, cell.stop)})
        made[name] = made.get(name, 0.0) + float(flat[columns].sum())
    for name, own, _ in others(trace):
        made[name] = made.get(name, 0.0) + float(flat[own].sum())
    return made


def spoken(trace: Trace) -> str:
    """What was asked, as a title: the last words of the prompt that are of no template."""
    said = [passage for passage in passages(trace)[:-1] if not passage.quiet]
    read = "".join(cell.gap + cell.text for cell in said[-1].cells if not cell.special) if said else ""
    return " ".join((read.strip() or trace.text).replace("⏎", " ").split()) or "What was written"


def unmarked(trace: Trace) -> str:
    """What was written, without the marks that end it."""
    marks = [cell.special for cell in passages(trace)[-1].cells]
    while len(marks) > 1 and marks[-1]:
        marks.pop()
    return "".join(trace.written[: len(marks)])


def named(text: str) -> str:
    """A token as it is listed: without white space around it, and on one line."""
    return text.strip().replace("\n", "⏎").replace("\t", "→") or ("⏎" if "\n" in text else "␣")


def strongest(trace: Trace, scores: np.ndarray, most: int) -> Sequence[tuple[str, float]]:
    """The columns with the largest scores, for and against, those of zero left out."""
    flat = np.nan_to_num(scores.reshape(-1))
    order = np.argsort(-np.abs(flat), kind="stable")[:most]
    return [(named(trace.whole.feature(int(i))), float(flat[i])) for i in order if flat[i]]
