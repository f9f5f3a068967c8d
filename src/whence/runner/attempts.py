"""Attempts at a shard, on disk: a process that dies says nothing, so what it was about to do is written down before.

A note lies beside the shards from the time a shard is begun until it is written or given up in good order. Who finds a
note knows that its writer died, and where:

    1st time   anywhere in the shard     window by window from now on, each noted before it is begun
    2nd time   in a noted window         row by row in that window, for nothing but to see who dies
    then       twice on the same row     the row is recorded as failed; the others are explained without it

Rows share batches with the same neighbours whoever explains them, so the one that is blamed is all that differs.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from whence.data.rows import Row
from whence.errors import ModelError
from whence.files import write
from whence.runner.plan import Shard

__all__ = ["Attempt", "died_again", "note_of", "notes"]

BLAMED = 2
"""Deaths on a row alone that make it the cause: one may be a coincidence."""
TRIES = 6
"""Deaths on one shard in one run without a row to blame."""


@dataclass
class Attempt:
    """One attempt at a shard."""

    path: Path
    run: str = ""
    """Which call of `run` it belongs to."""
    deaths: int = 0
    """Of this call."""
    window: int | None = None
    row: int | None = None
    """Numbers of the first row of the window, and of the row, that are being explained."""
    suspects: list[int] = field(default_factory=list)
    """Windows in which a process died."""
    died: Counter[int] = field(default_factory=Counter)
    """Rows on which a process died."""
    is_careful: bool = False

    @classmethod
    def begin(cls, out: Path, shard: Shard, run: str) -> Attempt:
        """The first attempt, or the next after one that did not come to an end."""
        path = note_of(out, shard.number)
        attempt = cls(path, run)
        if path.exists():
            attempt._go_on(shard)
        attempt._write()
        return attempt

    def _go_on(self, shard: Shard) -> None:
        self.is_careful = True
        try:
            note = json.loads(self.path.read_bytes())
            self.suspects, self.died = note["suspects"], Counter({int(k): n for k, n in note["died"].items()})
            window, row, deaths = note["window"], note["row"], note["deaths"] if note["run"] == self.run else 0
        except (ValueError, TypeError, KeyError, AttributeError):  # the disk lost it, or somebody changed it
            self.suspects, self.died = [], Counter()
            return
        self.deaths = deaths + 1
        if row is not None:
            self.died[row] += 1
        elif window is not None and window not in self.suspects:
            self.suspects.append(window)
        if self.deaths > TRIES + (BLAMED + 1) * len(self.blamed):
            self.end()
            raise ModelError(
                f"processes died {self.deaths} times on rows {shard.start} to {shard.start + len(shard.rows) - 1}, and "
                "on no single one of them: out of memory? Try a smaller --batch-tokens with another --out"
            )

    @property
    def blamed(self) -> list[int]:
        return [row for row, times in self.died.items() if times >= BLAMED]

    def reason(self, row: Row) -> str | None:
        """Why a row is not tried again."""
        if row.number not in self.blamed:
            return None
        return f"its process died each of {self.died[row.number]} times it was explained alone (crashed, out of memory)"

    def note(self, window: int, row: int | None = None) -> None:
        """Say what comes next."""
        self.window, self.row = window, row
        self._write()

    def _write(self) -> None:
        # What a dead process wrote is kept by the system; only a power cut could lose it, and that is nobody's fault.
        values = {name: getattr(self, name) for name in ("run", "deaths", "window", "row", "suspects", "died")}
        write(self.path, json.dumps(values))

    def end(self) -> None:
        """In good order, whether the shard is written or not."""
        self.path.unlink(missing_ok=True)


def note_of(out: Path, shard: int) -> Path:
    return out / f"_trying-{shard:06d}.json"


def died_again(note: Path) -> bool:
    """Whether a note was left by a process that knew of one before it."""
    try:
        return json.loads(note.read_bytes())["window"] is not None
    except (OSError, ValueError, TypeError, KeyError):
        return False


def notes(out: Path) -> list[Path]:
    """Notes of processes that died."""
    return sorted(out.glob("_trying-*.json"))
