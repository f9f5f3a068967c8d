"""What was asked for and what is done: `_manifest.json`, replaced whole, and `_journal.jsonl`, only appended to.

A shard counts as done when its line is in the journal and its file is what the line says: `opened` compares sizes,
`run` and `verify` every byte. Manifest and lines carry a digest of themselves; a line that was changed is named, and
one that a crash cut off is dropped. Names begin with `_`, which readers of Parquet folders pass over.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from whence.errors import InputError, WhenceError
from whence.files import append, digest_of_file, write
from whence.runner.plan import Plan, difference

__all__ = ["Journal", "Manifest", "ShardReport", "folder_of", "locked"]

FORMAT = 2
SHOWN = 8
"""Differences that are named."""
MANIFEST, JOURNAL, LOCK = "_manifest.json", "_journal.jsonl", "_lock"
END = re.compile(rb'}$|"seal": "\w+".$', re.DOTALL)
"""Of a line that was written to its end."""


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
    """Of the file."""
    input: str
    """Digest of the rows that went in."""
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
        try:
            data = json.loads(path.read_bytes())
            if (version := data.pop("format", None)) not in (None, FORMAT):
                raise InputError(
                    f"{str(out)!r} is a run of format {version}, and this version of whence reads format {FORMAT}. Its "
                    "Parquet shards can be read as they are; whence run has to begin anew in another folder"
                )
            data = _unsealed(data)
            return cls(**{**data, "plan": Plan(**data["plan"])})
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{str(path)!r} is damaged: it is not what whence wrote. The shards beside it are as they were; "
                "put the file back from a copy, or begin anew in another folder"
            ) from None

    def write(self, out: Path) -> None:
        text = json.dumps({"format": FORMAT, **_sealed(asdict(self))}, indent=1)
        write(out / MANIFEST, text, durable=True)

    def check(self, settings: dict[str, Any], planned: dict[str, Any], out: Path) -> None:
        """Refuse to go on with other settings, and say which differ. `planned` is what was given of the plan."""
        lines = difference({**self.settings, **planned}, json.loads(json.dumps(settings)))
        if lines:
            more = [f"… and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
            shown = "\n  ".join(lines[:SHOWN] + more)
            raise InputError(
                f"{str(out)!r} holds a run with other settings:\n  {shown}\n"
                "Use the settings from before to go on with it, or choose another --out."
            )


class Journal:
    """The shards that are done, in the order they were. With `whole`, every byte of them is read and compared."""

    def __init__(self, out: Path, *, whole: bool = False):
        self.out, self.path = out, out / JOURNAL
        self.done: dict[int, ShardReport] = {}
        self.damaged: dict[str, str] = {}
        """Files that are not what was written, with the reason."""
        for report in {r.shard: r for r in self._lines()}.values():
            if reason := self.problem(report, whole=whole):
                self.damaged[report.file] = reason
            else:
                self.done[report.shard] = report

    def _lines(self) -> Iterator[ShardReport]:
        if not self.path.exists():
            return
        lines, changed = self.path.read_bytes().split(b"\n"), []
        for number, line in enumerate(lines, 1):
            try:
                yield ShardReport(**_unsealed(json.loads(line)))
            except (ValueError, TypeError, AttributeError, RecursionError):
                if END.search(line):  # else a crash cut it off; appending after it starts a line of its own
                    changed.append(str(number))
        if changed:
            self.damaged[self.path.name] = f"has lines that are not as they were written ({', '.join(changed[:SHOWN])})"

    def mend(self) -> None:
        """Leave no line in the journal that was changed."""
        if self.path.name in self.damaged:
            write(self.path, "".join(map(_line, self.done.values())), durable=True)

    def foreign(self) -> list[str]:
        """Parquet files that the journal does not name."""
        known = {*self.damaged, *(report.file for report in self.done.values())}
        return sorted({path.name for path in self.out.glob("*.parquet")} - known)

    def problem(self, report: ShardReport, *, whole: bool = True) -> str:
        """What is wrong with the file of a shard; nothing if it is as it was written."""
        path = self.out / report.file
        if not path.is_file():
            return "is not there"
        if (size := path.stat().st_size) != report.bytes:
            return f"has {size} bytes, and {report.bytes} were written"
        return "holds other bytes than were written" if whole and digest_of_file(path) != report.digest else ""

    def path_of(self, report: ShardReport) -> Path:
        """The file of a shard, compared with what was written."""
        if reason := self.problem(report):
            raise WhenceError(
                f"{report.file} of {str(self.out)!r} {reason}: the same whence run explains its rows again"
            )
        return self.out / report.file

    def add(self, report: ShardReport) -> None:
        """Record a shard as done. Its file is in place already."""
        append(self.path, _line(report))
        self.done[report.shard] = report

    @property
    def rows(self) -> int:
        return sum(r.rows for r in self.done.values())

    @property
    def failed(self) -> int:
        return sum(r.failed for r in self.done.values())


def _line(report: ShardReport) -> str:
    return json.dumps(_sealed(asdict(report))) + "\n"


def _sealed(values: dict[str, Any]) -> dict[str, Any]:
    """With a digest of themselves: one changed letter is noticed."""
    return {**values, "seal": _seal(values)}


def _unsealed(values: dict[str, Any]) -> dict[str, Any]:
    if values.pop("seal", None) != _seal(values):
        raise ValueError("not what was written")
    return values


def _seal(values: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).hexdigest()


def folder_of(out: str | Path) -> Path:
    """The folder of a run. Object stores can neither lock, nor rename, nor append, which is how nothing is lost."""
    found = re.match(r"([a-z][a-z0-9+]+):/+(.+)", str(out))  # a Path has lost one of the two //
    if found is not None:
        address = f"{found[1]}://{found[2]}"
        raise InputError(
            f"{address!r} is not on this machine, and a run needs a folder that can be locked. Write it here, --out "
            f"FOLDER, and copy it when it is done (aws s3 sync FOLDER {address}); copy it back to read it with whence"
        )
    return Path(out).expanduser()


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
        except BlockingIOError:
            raise InputError(f"another run is writing to {str(out)!r}: wait for it, or choose another --out") from None
        except OSError as error:  # such as a network file system without locks
            raise InputError(f"can't lock {file.name!r}: {error.strerror}. Choose another --out") from None
        yield
