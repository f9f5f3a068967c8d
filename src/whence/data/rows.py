"""Records to rows: what is explained, under which id, for which target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from whence.data.dataset import BROKEN, AbstractDataset, Record

__all__ = ["Columns", "Row", "rows", "writable"]

DEEPEST = 50
"""Lists and objects within each other, at most."""
HOLDS = (dict, list, tuple)


@dataclass(frozen=True)
class Row:
    """One input to explain."""

    number: int
    id: str
    content: Any
    """Text, pair, words, image path or image; None if there is none."""
    target: Any = None
    error: str | None = None
    """Why the row can't be read."""

    @property
    def shown(self) -> str | None:
        """The content as it stands in the output."""
        if isinstance(self.content, str | Path):
            return writable(str(self.content))
        if isinstance(self.content, tuple | list):
            return writable("\n".join(map(str, self.content)))
        return None


@dataclass(frozen=True)
class Columns:
    """Which column is what."""

    text: str = "text"
    pair: str | None = None
    id: str | None = None
    target: str | None = None

    def named(self) -> list[str]:
        return [name for name in (self.text, self.pair, self.id, self.target) if name is not None]

    def row(self, number: int, record: Record) -> Row:
        """The row that a record stands for."""
        if deep := next((c for c in self.named() if _is_deep(record.get(c))), None):
            return Row(number, str(number), None, error=f"the value of {deep!r} is nested more than {DEEPEST} deep")
        name = str(number) if self.id is None else writable(str(record.get(self.id, number)))
        if BROKEN in record:
            return Row(number, name, None, error=record[BROKEN])
        missing = [c for c in self.named() if c not in record]
        if missing:
            has = writable(", ".join(map(str, record)))
            return Row(number, name, None, error=f"the row has no {missing[0]!r}; it has {has}")
        content = record[self.text] if self.pair is None else (record[self.text], record[self.pair])
        return Row(number, name, content, record[self.target] if self.target else None, _problem(content))


def _is_deep(value: Any, left: int = DEEPEST) -> bool:
    """Whether lists and objects stand in each other further than anybody goes: processes hand rows to each other, and
    what takes these apart goes down once for each."""
    if not isinstance(value, HOLDS):
        return False
    within = value.values() if isinstance(value, dict) else value
    return left == 0 or any(_is_deep(one, left - 1) for one in within if isinstance(one, HOLDS))


def _problem(content: Any) -> str | None:
    """Why a content can neither be encoded nor written."""
    try:
        for text in content if isinstance(content, tuple | list) else [content]:
            str(text).encode() if isinstance(text, str | tuple | list) else None
    except UnicodeEncodeError as error:
        return f"character {error.start} of the text is half of one (a lone surrogate): no UTF-8 can hold it"
    return None


def writable(text: str) -> str:
    r"""As UTF-8 can hold it.

    >>> writable("a \ud800 b")
    'a \\ud800 b'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def rows(data: AbstractDataset, columns: Columns, start: int = 0, limit: int | None = None) -> Iterator[Row]:
    """Rows from number `start` on, up to row `limit` of the data."""
    left = None if limit is None else max(0, limit - start)
    for number, record in enumerate(islice(data.records(start), left), start):
        yield columns.row(number, record)
