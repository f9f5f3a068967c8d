"""Is what a run wrote still there, to the byte?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whence.runner.show import opened

__all__ = ["Verification", "verify"]


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

    @property
    def ok(self) -> bool:
        return not self.damaged

    def __str__(self) -> str:
        lines = [f"{name} {reason}" for name, reason in self.damaged.items()]
        lines.append(f"{self.shards} shards with {self.rows} rows under {self.out} are as they were written")
        if self.damaged:
            lines.append("the same whence run again explains the other rows anew")
        elif not self.complete:
            lines.append("the run is not complete: type the same whence run again to go on")
        return "\n".join(lines)


def verify(out: str | Path) -> Verification:
    """Read every byte of a run and compare it with what was written. `damaged` names the files that differ."""
    manifest, journal = opened(out, whole=True)
    damaged = dict(journal.damaged)
    if manifest.complete:  # before that, a shard may be whole and its line not yet written
        known = {*damaged, *(report.file for report in journal.done.values())}
        foreign = {path.name for path in journal.out.glob("*.parquet")} - known
        damaged |= dict.fromkeys(sorted(foreign), "is not in the journal")
        if not damaged and journal.rows != manifest.rows:
            damaged[journal.path.name] = f"has {journal.rows} of {manifest.rows} rows"
    return Verification(journal.out, len(journal.done), journal.rows, manifest.complete, damaged)
