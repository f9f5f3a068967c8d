"""Rows of a data set, streamed: Parquet, JSON Lines, CSV, text, image folders, a hub data set, or any iterable.

A *record* is what stands in the source (column to value); a *row* is what is explained.
"""

from __future__ import annotations

import csv
import glob
import gzip
import hashlib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from whence.errors import InputError
from whence.runner.extras import need_datasets, need_parquet

__all__ = ["AbstractSource", "Columns", "Row", "open_source", "rows"]

FORMATS = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "text",
    ".text": "text",
}
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"})
COUNTED = 256 * 2**20
"""Text files larger than this are not read twice only to count their rows."""
BROKEN = "\0broken"
"""The key of a record that could not be read; its value says why."""
Record = Mapping[str, Any]


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
            return str(self.content)
        if isinstance(self.content, tuple | list):
            return "\n".join(map(str, self.content))
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
        name = str(number) if self.id is None else str(record.get(self.id, number))
        if BROKEN in record:
            return Row(number, name, None, error=record[BROKEN])
        missing = [c for c in self.named() if c not in record]
        if missing:
            return Row(number, name, None, error=f"the row has no {missing[0]!r}; it has {', '.join(map(str, record))}")
        content = record[self.text] if self.pair is None else (record[self.text], record[self.pair])
        return Row(number, name, content, record[self.target] if self.target else None)


class AbstractSource(ABC):
    """A data set that can be read from a row on."""

    name: str

    @abstractmethod
    def records(self, start: int = 0) -> Iterator[Record]:
        """Records from number `start` on."""

    @abstractmethod
    def columns(self) -> list[str]:
        """The columns, as far as they are known."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """What tells this data from other data."""

    def count(self) -> int | None:
        """The number of rows, where counting is cheap."""
        return None

    @property
    def is_fixed(self) -> bool:
        """Whether the fingerprint pins the rows down. If not, rows passed over on resuming are compared."""
        return True


def rows(source: AbstractSource, columns: Columns, start: int = 0, limit: int | None = None) -> Iterator[Row]:
    """Rows from number `start` on, up to row `limit` of the source."""
    for number, record in enumerate(islice(source.records(start), _left(limit, start)), start):
        yield columns.row(number, record)


def _left(limit: int | None, start: int) -> int | None:
    return None if limit is None else max(0, limit - start)


def open_source(data: Any, *, split: str = "train", subset: str | None = None) -> AbstractSource:
    """What the user passed as data, as a source.

    >>> [row["text"] for row in open_source(["a gem", "so dull"]).records(1)]
    ['so dull']
    """
    if isinstance(data, AbstractSource):
        return data
    if isinstance(data, str | Path):
        return _named(str(data), split, subset)
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise InputError(f"can't read rows from {type(data).__name__}: pass a path, a hub id, or an iterable of texts")
    return IterableSource(data)


def _named(name: str, split: str, subset: str | None) -> AbstractSource:
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(path)
    if path.is_file():
        return _files([path], name)
    if any(c in name for c in "*?["):
        found = sorted(map(Path, glob.glob(str(path))))
        if not found:
            raise InputError(f"no file matches {name!r}")
        return _files(found, name)
    looks_like_path = path.is_absolute() or name.startswith(("./", "../", "~")) or path.suffix in (*FORMATS, ".gz")
    if looks_like_path or name.count("/") > 1:
        raise InputError(f"no such file or folder: {name!r}")
    return HubSource(name, split, subset)


def _format(path: Path) -> str | None:
    return FORMATS.get(Path(path.stem).suffix if path.suffix == ".gz" else path.suffix.lower())


def _files(paths: Sequence[Path], name: str) -> AbstractSource:
    formats = {_format(p) for p in paths}
    if formats == {"parquet"}:
        return ParquetSource(paths, name)
    if len(formats) == 1 and None not in formats:
        return LinesSource(paths, name, str(formats.pop()))
    unknown = next((p for p in paths if _format(p) is None), None)
    if unknown is not None:
        raise InputError(
            f"{unknown.name!r} has a format that whence can't read. It reads {', '.join(FORMATS)} (text formats also "
            "as .gz), folders of images or of such files, and hub data sets"
        )
    raise InputError(f"{name!r} mixes formats ({', '.join(sorted(map(str, formats)))}): pass one kind, such as '*.csv'")


def _folder(path: Path) -> AbstractSource:
    files = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".", "_")))
    data = [p for p in files if _format(p) is not None]
    images = [p for p in files if p.suffix.lower() in IMAGES]
    if images and len(images) >= len(data):
        return ImageFolder(images, path)
    if not data:
        raise InputError(f"the folder {str(path)!r} holds neither data files ({', '.join(FORMATS)}) nor images")
    return _files(data, str(path))


def _fingerprint(paths: Sequence[Path]) -> dict[str, Any]:
    """Sizes, and a digest of how each file begins and ends: cheap for files of any size."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        with path.open("rb") as file:
            size = path.stat().st_size
            digest.update(f"{path.name} {size}\n".encode() + file.read(2**16))
            file.seek(max(0, size - 2**16))
            digest.update(file.read(2**16))
    return {"files": len(paths), "bytes": sum(p.stat().st_size for p in paths), "digest": digest.hexdigest()}


class ParquetSource(AbstractSource):
    """Parquet files, read row group by row group."""

    def __init__(self, paths: Sequence[Path], name: str):
        self.paths, self.name = list(paths), name
        _, self._parquet = need_parquet()
        try:
            self._sizes = [self._parquet.read_metadata(p).num_rows for p in self.paths]
        except Exception as error:
            raise InputError(f"{name!r} can't be read as Parquet: {error}") from None

    def columns(self) -> list[str]:
        return list(self._parquet.read_schema(self.paths[0]).names)

    def count(self) -> int:
        return sum(self._sizes)

    def fingerprint(self) -> dict[str, Any]:
        return {"name": self.name, "rows": self.count(), **_fingerprint(self.paths)}

    def records(self, start: int = 0) -> Iterator[Record]:
        for path, size in zip(self.paths, self._sizes, strict=True):
            if start >= size:
                start -= size
                continue
            yield from self._file(path, start)
            start = 0

    def _file(self, path: Path, start: int) -> Iterator[Record]:
        with self._parquet.ParquetFile(path) as file:
            groups = list(range(file.num_row_groups))
            while groups and start >= (n := file.metadata.row_group(groups[0]).num_rows):
                start -= n
                groups.pop(0)
            for batch in file.iter_batches(batch_size=512, row_groups=groups):
                yield from batch.slice(start).to_pylist()
                start = max(0, start - batch.num_rows)


class LinesSource(AbstractSource):
    """JSON Lines, CSV, TSV and text files, also gzipped."""

    def __init__(self, paths: Sequence[Path], name: str, kind: str):
        self.paths, self.name, self.kind = list(paths), name, kind

    def columns(self) -> list[str]:
        if self.kind == "text":
            return ["text"]
        first = next(self.records(), {})
        return [c for c in first if c != BROKEN]

    def count(self) -> int | None:
        if sum(p.stat().st_size for p in self.paths) > COUNTED:
            return None
        return sum(1 for _ in self.records())

    def fingerprint(self) -> dict[str, Any]:
        return {"name": self.name, **_fingerprint(self.paths)}

    def records(self, start: int = 0) -> Iterator[Record]:
        read = {"jsonl": _json_lines, "csv": _separated, "text": _plain}[self.kind]
        return islice(chain.from_iterable(map(read, self.paths)), start, None)


def _opened(path: Path) -> Any:
    # newline="" keeps line ends inside quoted CSV fields; bytes that are no UTF-8 spoil one row, not the run.
    options: dict[str, Any] = {"encoding": "utf-8", "errors": "replace", "newline": ""}
    return gzip.open(path, "rt", **options) if path.suffix == ".gz" else path.open(**options)


def _json_lines(path: Path) -> Iterator[Record]:
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                record = json.loads(line)
            except ValueError as error:
                yield {BROKEN: f"line {number} of {path.name} is not JSON: {error}"}
                continue
            yield record if isinstance(record, dict) else {"text": record}


def _separated(path: Path) -> Iterator[Record]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default, 128 KB, is shorter than some documents
    with _opened(path) as file:
        if ".tsv" in path.suffixes:
            yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            yield from csv.DictReader(file)


def _plain(path: Path) -> Iterator[Record]:
    with _opened(path) as file:
        for line in file:
            yield {"text": line.rstrip("\r\n")}


class ImageFolder(AbstractSource):
    """Images under a folder in the order of their names; the folder an image is in is its label."""

    def __init__(self, paths: Sequence[Path], root: Path):
        self.paths, self.root, self.name = list(paths), root, str(root)

    def columns(self) -> list[str]:
        return ["path", "label"]

    def count(self) -> int:
        return len(self.paths)

    def fingerprint(self) -> dict[str, Any]:
        names = "\n".join(f"{p.relative_to(self.root)} {p.stat().st_size}" for p in self.paths)
        digest = hashlib.blake2b(names.encode(), digest_size=16).hexdigest()
        return {"name": self.name, "files": len(self.paths), "digest": digest}

    def records(self, start: int = 0) -> Iterator[Record]:
        for path in islice(self.paths, start, None):
            yield {"path": str(path), "label": path.parent.name}


class HubSource(AbstractSource):
    """A data set of the hub, streamed by the `datasets` library."""

    def __init__(self, name: str, split: str, subset: str | None):
        self.name, self.split = name, split
        try:
            self._data = need_datasets().load_dataset(name, subset, split=split, streaming=True)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{name!r} is no file here, and no data set of that name with a split {split!r} could be opened: "
                f"{str(error).splitlines()[0] if str(error) else type(error).__name__}"
            ) from None

    def columns(self) -> list[str]:
        known = getattr(self._data, "column_names", None)
        return list(known or next(iter(self._data), {}))

    def count(self) -> int | None:
        splits = getattr(getattr(self._data, "info", None), "splits", None) or {}
        found = splits.get(self.split)
        return getattr(found, "num_examples", None)

    def fingerprint(self) -> dict[str, Any]:
        version = getattr(getattr(self._data, "info", None), "version", None)
        return {"name": self.name, "split": self.split, "version": str(version) if version else None}

    @property
    def is_fixed(self) -> bool:
        return False

    def records(self, start: int = 0) -> Iterator[Record]:
        return iter(
            self._data.skip(start) if start and hasattr(self._data, "skip") else islice(self._data, start, None)
        )


class IterableSource(AbstractSource):
    """Texts, pairs, images or dicts from Python. What was looked at before the run is handed out again."""

    name = "an iterable"

    def __init__(self, items: Iterable[Any]):
        self._items = items
        self._once = iter(items) is items
        self._seen: list[Record] = []
        self._used = False

    def columns(self) -> list[str]:
        return list(next(self._peek(1), {}))

    def count(self) -> int | None:
        return len(self._items) if isinstance(self._items, Sized) else None

    def fingerprint(self) -> dict[str, Any]:
        return {"name": self.name, "rows": self.count()}

    @property
    def is_fixed(self) -> bool:
        return False

    def _peek(self, n: int) -> Iterator[Record]:
        if not self._once:
            return islice(map(_record, self._items), n)
        self._seen += islice(map(_record, self._items), max(0, n - len(self._seen)))
        return iter(self._seen[:n])

    def sample(self, n: int) -> list[Record]:
        """The first `n` records, which `records` still begins with."""
        return list(self._peek(n))

    def records(self, start: int = 0) -> Iterator[Record]:
        if self._once and self._used:
            raise InputError("the iterable was read already: pass a list, or an object that can be iterated again")
        self._used = True
        return islice(chain(self._seen, map(_record, self._items)), start, None)


def _record(item: Any) -> Record:
    return item if isinstance(item, Mapping) else {"text": item}
