"""Files of rows: Parquet, JSON Lines, CSV, TSV and text; the text formats also as .gz. And folders of images."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from whence.data.contents import contents
from whence.data.dataset import BROKEN, AbstractDataset, Record
from whence.data.remote import RemoteFile, redacted
from whence.errors import InputError
from whence.extras import need_parquet

__all__ = ["FORMATS", "IMAGES", "File", "ImageFolder", "LinesDataset", "ParquetDataset", "format_of", "standard_input"]

File = Path | RemoteFile
"""A file here or elsewhere: both are opened and named in the same way."""
FORMATS = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
    ".text": "text",
}
IMAGES = frozenset(".png .jpg .jpeg .bmp .gif .webp .tif .tiff .ppm .pgm".split())
COUNTED = 256 * 2**20
"""Text files larger than this are not read twice only to count their rows."""
NAMED = frozenset("text sentence label labels input target class id".split())
"""A first line of a .tsv with one of these names is a header; without one, two columns are label and text."""
MAGIC = {"gzip": b"\x1f\x8b", "Parquet": b"PAR1\x15"}
"""First bytes of files that are no text; a text may begin with PAR1, but not with what comes after it."""
LAST = "\ufdd0 the end"
"""A line that no file has: Unicode keeps its first character for uses like this one."""


def format_of(path: File) -> str | None:
    """The format that a file's name says."""
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    return FORMATS.get(suffix.lower())


class ParquetDataset(AbstractDataset):
    """Parquet files, read row group by row group."""

    is_told_by_content = True

    def __init__(self, paths: Sequence[File], name: str):
        self.paths, self.name = list(paths), name
        _, self._parquet = need_parquet()
        try:
            self._sizes = [self._parquet.read_metadata(_jumping(p)).num_rows for p in self.paths]
        except Exception as error:
            raise InputError(f"{name!r} can't be read as Parquet: {redacted(error)}") from None

    def columns(self) -> list[str]:
        return list(self._parquet.read_schema(_jumping(self.paths[0])).names)

    def count(self) -> int:
        return sum(self._sizes)

    def fingerprint(self) -> dict[str, Any]:
        return {"rows": self.count(), **contents(self.paths)}

    def records(self, start: int = 0) -> Iterator[Record]:
        for path, size in zip(self.paths, self._sizes, strict=True):
            if start >= size:
                start -= size
                continue
            try:
                yield from self._file(path, start)
            except (OSError, ValueError) as error:  # pyarrow's own errors are both
                raise InputError(f"{str(path)!r} can't be read: {redacted(error)}") from None
            start = 0

    def _file(self, path: File, start: int) -> Iterator[Record]:
        with self._parquet.ParquetFile(_jumping(path)) as file:
            groups = list(range(file.num_row_groups))
            while groups and start >= (n := file.metadata.row_group(groups[0]).num_rows):
                start -= n
                groups.pop(0)
            for batch in file.iter_batches(batch_size=512, row_groups=groups):
                yield from batch.slice(start).to_pylist()
                start = max(0, start - batch.num_rows)


def _jumping(path: File) -> Any:
    """What readers of Parquet open."""
    return path.random() if isinstance(path, RemoteFile) else path


class LinesDataset(AbstractDataset):
    """JSON Lines, CSV, TSV and text files.

    A .tsv without a header, with two columns, holds label TAB text. `wanted` are columns that a header may name.
    With `strict`, bytes that are no UTF-8 are an error; otherwise they spoil one row, not the run.
    """

    is_told_by_content = True

    def __init__(
        self, paths: Sequence[File], name: str, kind: str, *, wanted: Sequence[str] = (), strict: bool = False
    ):
        self.paths, self.name, self.kind = list(paths), name, kind
        self._wanted, self._strict = {*NAMED, *(w.lower() for w in wanted)}, strict

    @property
    def is_text(self) -> bool:
        return self.kind == "text"

    def columns(self) -> list[str]:
        if self.is_text:
            return ["text"]
        first = next(self.records(), {})
        return [c for c in first if c != BROKEN]

    def count(self) -> int | None:
        if sum(p.stat().st_size for p in self.paths) > COUNTED:
            return None
        return sum(1 for _ in self.records())

    def fingerprint(self) -> dict[str, Any]:
        return contents(self.paths)

    def records(self, start: int = 0) -> Iterator[Record]:
        readers: dict[str, Callable[[File, TextIO], Iterator[Record]]] = {
            "jsonl": _json_lines, "csv": self._separated, "tsv": self._tabbed, "text": _plain,
        }  # fmt: skip
        return islice(chain.from_iterable(self._file(p, readers[self.kind]) for p in self.paths), start, None)

    def _file(self, path: File, read: Callable[[File, TextIO], Iterator[Record]]) -> Iterator[Record]:
        # newline="" keeps line ends inside quoted CSV fields
        options: dict[str, Any] = {
            "encoding": "utf-8-sig",  # spreadsheets begin their files with a mark
            "newline": "",
            "errors": "strict" if self._strict else "replace",
        }
        try:
            with path.open("rb") as raw, io.TextIOWrapper(_unpacked(path, raw), **options) as file:
                _refuse_utf16(repr(str(path)), file.buffer.peek(2))
                yield from read(path, file)
        except FileNotFoundError:
            raise InputError(f"no such file: {str(path)!r}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{str(path)!r} is not UTF-8 text: {error}") from None
        except (OSError, zlib.error, EOFError, csv.Error) as error:
            raise InputError(f"{str(path)!r} can't be read: {redacted(error)}") from None

    def _separated(self, path: File, file: TextIO) -> Iterator[Record]:
        table = _Cells(path, file)
        return table.records(next(table, []))

    def _tabbed(self, path: File, file: TextIO) -> Iterator[Record]:
        table = _Cells(path, file, delimiter="\t", quoting=csv.QUOTE_NONE)
        first = next(table, [])
        names = [cell.strip() for cell in first]
        if len(names) != 2 or any(name.lower() in self._wanted for name in names):
            return table.records(names)
        return table.records(["label", "text"], first)


def _unpacked(path: File, raw: Any) -> Any:
    return gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw


class _Cells(Iterator[list[str]]):
    """Rows of a table as cells, without blank lines. A quote that is never closed is an error: it takes in all that
    comes after it.
    """

    def __init__(self, path: File, file: TextIO, **form: Any):
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default, 128 KB, is shorter than some documents
        self.path, self.line = path, 0
        self._reader = csv.reader(chain(file, [LAST]), **form)

    def __next__(self) -> list[str]:
        while True:
            self.line = self._reader.line_num + 1
            cells = next(self._reader)
            if cells == [LAST]:
                raise StopIteration
            if cells and cells[-1].endswith(LAST):
                raise InputError(
                    f"line {self.line} of {self.path.name} opens a quote that is never closed, and would take in the "
                    f'{self._reader.line_num - 1 - self.line} lines after it: close it, or double it ("")'
                )
            if cells:
                return cells

    def records(self, names: list[str], *first: list[str]) -> Iterator[Record]:
        for cells in chain(first, self):
            if any(cells[len(names) :]):
                says = f"line {self.line} of {self.path.name} has {len(cells)} cells for {len(names)} columns"
                yield {BROKEN: f"{says}: a text that holds a separator has to stand in quotes"}
            else:
                yield dict(zip_longest(names, cells[: len(names)]))


def _refuse_utf16(name: str, start: bytes) -> None:
    """Read as UTF-8, each of its letters would be two."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{name} is UTF-16: write it as UTF-8, such as with  iconv -f UTF-16 -t UTF-8")


def standard_input() -> Iterator[Record]:
    """Lines of standard input: JSON if the first that is not blank begins with {, texts otherwise."""
    start = sys.stdin.buffer.readline()
    _refuse_utf16("standard input", start)
    for kind, magic in MAGIC.items():
        if start.startswith(magic):
            raise InputError(f"standard input is a {kind} file, and only text is read from there: pass the file's name")
    lines = chain(_decoded(io.BytesIO(start), "utf-8-sig"), _decoded(sys.stdin.buffer, "utf-8"))
    head = []
    for line in lines:
        head.append(line)
        if line.strip():
            break
    read = _json_lines if head and head[-1].lstrip().startswith("{") else _plain
    return read(Path("standard input"), chain(head, lines))


def _decoded(file: BinaryIO, encoding: str) -> TextIO:
    return io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="")


def _json_lines(path: File, file: Iterable[str]) -> Iterator[Record]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield {BROKEN: f"line {number} of {path.name} is not JSON: {error}"}
            continue
        yield record if isinstance(record, dict) else {"text": record}


def _plain(path: File, file: Iterable[str]) -> Iterator[Record]:
    for line in file:
        yield {"text": line.rstrip("\r\n")}


class ImageFolder(AbstractDataset):
    """Images under a folder in the order of their names; the folder an image is in is its label."""

    is_told_by_content = True

    def __init__(self, paths: Sequence[Path], root: Path):
        self.paths, self.root, self.name = list(paths), root, str(root)

    def columns(self) -> list[str]:
        return ["path", "label"]

    def count(self) -> int:
        return len(self.paths)

    def fingerprint(self) -> dict[str, Any]:
        names = "\n".join(str(p.relative_to(self.root)) for p in self.paths)
        return {"names": hashlib.blake2b(names.encode(), digest_size=16).hexdigest(), **contents(self.paths)}

    def records(self, start: int = 0) -> Iterator[Record]:
        for path in islice(self.paths, start, None):
            yield {"path": str(path), "label": path.parent.name}
