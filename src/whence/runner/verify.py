"""Is what a run wrote still there, to the byte?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whence.runner.show import looked_at
from whence.viz.terminal import printable

__all__ = ["Verification", "verify"]

UNKNOWN, FOREIGN = "is not in the journal", "is of no run here"


@dataclass(frozen=True)
class Verification:
    """What was compared, and what differs."""

    out: Path
    shards: int
    """Shards that are as they were written."""
    rows: int
    """Rows in them."""
    complete: bool
    """Whether the run came to the end of its data."""
    damaged: dict[str, str]
    """Files that are not as they were written, and why."""
    unlisted: int = 0
    """Shards of a run that is not complete which its journal does not name."""

    @property
    def ok(self) -> bool:
        return not self.damaged

    def __str__(self) -> str:
        lines = [f"{name} {reason}" for name, reason in self.damaged.items()]
        lines.append(f"{self.shards} shards with {self.rows} rows under {self.out} are as they were written")
        if self.unlisted:
            lines.append(f"{self.unlisted} more are not in the journal, as after a crash: they are explained again")
        if any(reason != FOREIGN for reason in self.damaged.values()):
            lines.append("the same whence run again explains the other rows anew")
        if FOREIGN in self.damaged.values():
            lines.append("take away what is of no run here")
        if not self.complete and not self.damaged:
            lines.append("the run is not complete: type the same whence run again to go on")
        return "\n".join(map(printable, lines))


def verify(out: str | Path) -> Verification:
    """Read every byte of a run and compare it with what was written. `damaged` names the files that differ."""
    manifest, journal = looked_at(out, whole=True)
    damaged, foreign = dict(journal.damaged), journal.foreign()
    if manifest.complete:
        lacks = journal.rows != manifest.rows
        if lacks and not damaged:
            damaged[journal.path.name] = f"has {journal.rows} of {manifest.rows} rows"
        damaged |= dict.fromkeys(foreign, UNKNOWN if lacks else FOREIGN)  # they may be the rows that it lacks
    # before that, a shard may be whole and its line not yet written
    unlisted = 0 if manifest.complete else len(foreign)
    return Verification(journal.out, len(journal.done), journal.rows, manifest.complete, damaged, unlisted)
