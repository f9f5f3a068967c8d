"""What was asked for and what is done: `_manifest.json`, replaced whole, and `_journal.jsonl`, only appended to.

A shard counts as done when its line is in the journal and its file has the size that the line says. A line that was
cut off by a crash is dropped. Names begin with `_`, which readers of Parquet folders pass over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from whence.errors import InputError
from whence.files import append, write
from whence.runner.plan import Plan, difference

__all__ = ["Journal", "Manifest", "ShardReport", "locked"]

FORMAT = 1
MANIFEST, JOURNAL, LOCK = "_manifest.json", "_journal.jsonl", "_lock"


@dataclass(frozen=True)
class ShardReport:
    """A finished shard."""

    shard: int
    start: int
    rows: int
    failed: int
    tokens: int
    file: str
    bytes: int
    seconds: float
    """Time of the model."""
    digest: str
    slowest: list[list[float]] = field(default_factory=list)
    """(row, seconds, tokens) of the slowest few; a batch's time is shared by its rows."""


@dataclass(frozen=True)
class Manifest:
    """Settings, plan and stamp of a run."""

    settings: dict[str, Any]
    """What the user chose and what it was applied to: must be the same to go on."""
    plan: Plan
    info: dict[str, Any] = field(default_factory=dict)
    """Versions, times: for people."""
    complete: bool = False
    rows: int | None = None
    """All rows, once the run has come to the end of the data."""

    @classmethod
    def read(cls, out: Path) -> Manifest | None:
        """The manifest in a folder; None if there is none."""
        path = out / MANIFEST
        if not path.exists():
            return None
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("format", None) != FORMAT:
            raise InputError(f"{str(out)!r} was written by another version of whence: choose another --out")
        return cls(**{**data, "plan": Plan(**data["plan"])})

    def write(self, out: Path) -> None:
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False)
        write(out / MANIFEST, text, durable=True)

    def check(self, settings: dict[str, Any], planned: dict[str, Any], out: Path) -> None:
        """Refuse to go on with other settings, and say which differ. `planned` is what was given of the plan."""
        lines = difference({**self.settings, **planned}, json.loads(json.dumps(settings)))
        if lines:
            shown = "\n  ".join(lines)
            raise InputError(
                f"{str(out)!r} holds a run with other settings:\n  {shown}\n"
                "Use the settings from before to go on with it, or choose another --out."
            )


class Journal:
    """The shards that are done, in the order they were."""

    def __init__(self, out: Path):
        self.out, self.path = out, out / JOURNAL
        self.done: dict[int, ShardReport] = {}
        for report in self._lines():
            if self._is_there(report):
                self.done[report.shard] = report

    def _lines(self) -> Iterator[ShardReport]:
        if not self.path.exists():
            return
        for line in self.path.read_bytes().split(b"\n"):
            try:
                yield ShardReport(**json.loads(line))
            except (ValueError, TypeError):  # cut off by a crash; appending after it starts a line of its own
                continue

    def _is_there(self, report: ShardReport) -> bool:
        path = self.out / report.file
        return path.exists() and path.stat().st_size == report.bytes

    def add(self, report: ShardReport) -> None:
        """Record a shard as done. Its file is in place already."""
        append(self.path, json.dumps(asdict(report)) + "\n")
        self.done[report.shard] = report

    @property
    def rows(self) -> int:
        return sum(r.rows for r in self.done.values())

    @property
    def failed(self) -> int:
        return sum(r.failed for r in self.done.values())


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Only one run writes to a folder. The lock goes with the process that holds it, however that ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with (out / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another run is writing to {str(out)!r}: wait for it, or choose another --out") from None
        yield
