"""The result of `whence.diagnose`: whether attention explains a model, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from whence.errors import InputError, UnknownNameError
from whence.results.showing import Drawn, Writers, draw
from whence.results.stored import opened, spelled

__all__ = ["Diagnosis", "Section"]

FORMAT = 1
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """One question: a table of answers, what they mean, and what they do not mean."""

    name: str
    title: str
    """The question itself."""
    rows: tuple[Row, ...]
    """The table: one mapping from column to value per row, the same columns in each."""
    text: str
    """How to read the table, written for these numbers."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[Row, ...] = ()
    """What the rows summarise, example by example; plots are drawn from it."""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""

    def where(self, **chosen: Any) -> list[Row]:
        """The rows whose columns have these values."""
        return [row for row in self.rows if all(row.get(k) == v for k, v in chosen.items())]


@dataclass(frozen=True)
class Diagnosis(Drawn):
    """Is attention an explanation of this model on this data? Sections in the order they were asked for.

    >>> part = Section("guided", "Does it help?", ({"guide": "uniform", "accuracy": 0.5},), "It does not.")
    >>> Diagnosis("m", 4, (part,)).table()
    [{'section': 'guided', 'guide': 'uniform', 'accuracy': 0.5}]
    """

    model: str
    examples: int
    sections: tuple[Section, ...]
    stamp: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Section:
        for section in self.sections:
            if section.name == name:
                return section
        raise UnknownNameError("section", name, [s.name for s in self.sections])

    def __iter__(self) -> Any:
        return iter(self.sections)

    def table(self) -> list[dict[str, Any]]:
        """All rows of all sections, each with the name of its section; `pandas.DataFrame(d.table())` takes it."""
        return [{"section": s.name, **row} for s in self.sections for row in s.rows]

    # -- saving and showing ----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Diagnosis:
        if data.get("format") != FORMAT:
            raise InputError(
                f"this file has format {data.get('format')!r}; this version of whence reads format {FORMAT}"
            )
        sections = tuple(
            Section(**{**s, **{k: tuple(s[k]) for k in ("rows", "points", "notes")}}) for s in data["sections"]
        )
        return cls(data["model"], data["examples"], sections, data["stamp"])

    def _writers(self) -> Writers:
        return {".json": lambda: spelled(self.to_dict(), indent=1)}

    @classmethod
    def load(cls, path: str | Path) -> Diagnosis:
        """Read what `save` wrote as .json."""
        with opened(path, "whence.results.diagnosis.Diagnosis", ".json") as (data, _):
            return cls.from_dict(data)

    def __str__(self) -> str:
        return str(draw(self, "md"))

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.model}: {self.examples} examples, {', '.join(s.name for s in self.sections)}>"
