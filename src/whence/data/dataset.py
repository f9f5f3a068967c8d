"""A data set: records, from any row on. A *record* is what stands in the data, column to value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain, islice
from typing import Any

from whence.errors import InputError

__all__ = ["BROKEN", "LOOKED_AT", "AbstractDataset", "IterableDataset", "Record"]

LOOKED_AT = 100
"""Rows that say which columns there are: not every row has them all."""
BROKEN = "\0broken"
"""The key of a record that could not be read; its value says why."""
Record = Mapping[str, Any]


class AbstractDataset(ABC):
    """A data set that can be read from a row on."""

    name: str

    @abstractmethod
    def records(self, start: int = 0) -> Iterator[Record]:
        """Records from number `start` on."""

    @abstractmethod
    def columns(self) -> list[str]:
        """The columns, as far as they are known."""

    is_told_by_content = False
    """Whether the fingerprint is of every byte: then data with the same one has the same rows."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """What tells this data from other data."""

    def sample(self, n: int) -> list[Record]:
        """The first `n` records. Reading them here uses nothing up."""
        return list(islice(self.records(), n))

    def count(self) -> int | None:
        """The number of rows, where counting is cheap."""
        return None

    def only(self, columns: Sequence[str]) -> AbstractDataset:
        """The same, of which no other columns are asked for."""
        return self

    @property
    def is_text(self) -> bool:
        """Whether a record is a line of text and nothing more."""
        return False


class IterableDataset(AbstractDataset):
    """Texts, pairs, images or dicts from Python. What was looked at before the run is handed out again."""

    def __init__(self, items: Iterable[Any], name: str = "an iterable", column: str = "text"):
        self.name = name
        self._items, self._column = items, column
        self._once = iter(items) is items
        self._seen: list[Record] = []
        self._used = False

    def columns(self) -> list[str]:
        return [c for c in dict.fromkeys(chain.from_iterable(self.sample(LOOKED_AT))) if c != BROKEN]

    def count(self) -> int | None:
        return len(self._items) if isinstance(self._items, Sized) else None

    def fingerprint(self) -> dict[str, Any]:
        return {"name": self.name, "rows": self.count()}

    def sample(self, n: int) -> list[Record]:
        if not self._once:
            return list(islice(map(self._record, self._items), n))
        self._seen += islice(map(self._record, self._items), max(0, n - len(self._seen)))
        return self._seen[:n]

    def records(self, start: int = 0) -> Iterator[Record]:
        if self._once and self._used:
            raise InputError("the iterable was read already: pass a list, or an object that can be iterated again")
        self._used = True
        return islice(chain(self._seen, map(self._record, self._items)), start, None)

    def _record(self, item: Any) -> Record:
        return item if isinstance(item, Mapping) else {self._column: item}
