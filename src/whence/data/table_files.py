"""Files of rows: Parquet, JSON Lines, CSV, TSV and text; the text formats also as .gz. And folders of images."""

from __future__ import annotations

import codecs
import copy
import csv
import gzip
import hashlib
import io
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from whence.data.contents import contents
from whence.data.dataset import BROKEN, LOOKED_AT, AbstractDataset, Record
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
ESCAPED = re.compile("[\udc80-\udcff]")
"""How a byte that is no UTF-8 is read (`surrogateescape`)."""


def format_of(path: File) -> str | None:
    """The format that a file's name says."""
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    return FORMATS.get(suffix.lower())


class ParquetDataset(AbstractDataset):
    """Parquet files, read row group by row group."""

    is_told_by_content = True

    def __init__(self, paths: Sequence[File], name: str, *, once: Sequence[str] = ()):
        self.paths, self.name, self._once = list(paths), name, once
        self._only: frozenset[str] | None = None
        """Columns that are read; None for all."""
        _, self._parquet = need_parquet()
        try:
            self._sizes = [self._parquet.read_metadata(_jumping(p)).num_rows for p in self.paths]
        except Exception as error:
            raise InputError(f"{name!r} can't be read as Parquet: {redacted(error)}") from None

    def columns(self) -> list[str]:
        return list(self._parquet.read_schema(_jumping(self.paths[0])).names)

    def only(self, columns: Sequence[str]) -> ParquetDataset:
        made = copy.copy(self)
        made._only = frozenset(columns)
        return made

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
            names = file.schema_arrow.names
            _refuse_twice(path, names, self._only or self._once)
            is_whole = self._only is not None and self._only <= {*names}  # else rows say what there is
            columns = sorted(self._only or ()) if is_whole else None
            groups, at = list(range(file.num_row_groups)), 0
            while groups and start >= (n := file.metadata.row_group(groups[0]).num_rows):
                start, at = start - n, at + n
                groups.pop(0)
            for batch in file.iter_batches(batch_size=512, row_groups=groups, columns=columns):
                yield from _converted(path, batch.slice(start), at + start)
                start, at = max(0, start - batch.num_rows), at + batch.num_rows


def _converted(path: File, batch: Any, at: int) -> Iterator[Record]:
    """Rows of a batch as Python has them. One that Python has no value for is a broken row."""
    try:
        yield from batch.to_pylist()
    except (ValueError, ArithmeticError):  # bytes that are no UTF-8, times beyond the year 9999
        for n in range(batch.num_rows):
            yield _one_converted(path, batch.slice(n, 1), at + n)


def _one_converted(path: File, batch: Any, at: int) -> Record:
    try:
        record: Record = batch.to_pylist()[0]
    except (ValueError, ArithmeticError) as error:
        return {BROKEN: f"row {at} of {path.name} can't be read: {redacted(error)}"}
    return record


def _refuse_twice(path: File, names: Sequence[str], asked: Iterable[str]) -> None:
    """Which of two columns of one name is meant, nobody knows."""
    twice = next((name for name in asked if names.count(name) > 1), None)
    if twice:
        raise InputError(f"{path.name} has {names.count(twice)} columns {twice!r}: name them apart")


def _jumping(path: File) -> Any:
    """What readers of Parquet open."""
    return path.random() if isinstance(path, RemoteFile) else path


class LinesDataset(AbstractDataset):
    """JSON Lines, CSV, TSV and text files.

    A .tsv without a header, with two columns, holds label TAB text. `wanted` are columns that a header may name.
    With `strict`, bytes that are no UTF-8 are an error; otherwise the row that they are in is a broken one.
    """

    is_told_by_content = True

    def __init__(
        self,
        paths: Sequence[File],
        name: str,
        kind: str,
        *,
        wanted: Sequence[str] = (),
        strict: bool = False,
        once: Sequence[str] = (),
    ):
        self.paths, self.name, self.kind = list(paths), name, kind
        self._wanted, self._strict = {*NAMED, *(w.lower() for w in wanted)}, strict
        self._once = once

    @property
    def is_text(self) -> bool:
        return self.kind == "text"

    def columns(self) -> list[str]:
        if self.is_text:
            return ["text"]
        looked_at = islice(self.records(), LOOKED_AT)
        return [c for c in dict.fromkeys(chain.from_iterable(looked_at)) if c != BROKEN]

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
            "errors": "strict" if self._strict else "surrogateescape",
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
        table = _Cells(path, file, strict=True)
        names = next(table, [])
        _refuse_twice(path, names, self._once)
        return table.records(names)

    def _tabbed(self, path: File, file: TextIO) -> Iterator[Record]:
        table = _Cells(path, file, delimiter="\t", quoting=csv.QUOTE_NONE)
        first = next(table, [])
        names = [cell.strip() for cell in first]
        if len(names) != 2 or any(name.lower() in self._wanted for name in names):
            _refuse_twice(path, names, self._once)
            return table.records(names)
        return table.records(["label", "text"], first)


def _unpacked(path: File, raw: Any) -> Any:
    if path.suffix.lower() != ".gz":
        return raw
    if not path.stat().st_size:
        raise EOFError("it is empty, and the shortest archive has 20 bytes: it was cut off")
    return gzip.GzipFile(fileobj=raw)


def _no_utf8(text: str) -> str:
    """What is wrong with a text that was read from bytes which are no UTF-8; nothing if it was not."""
    found = None if text.isascii() else ESCAPED.search(text)
    if found is None:
        return ""
    byte = ord(found[0]) - 0xDC00
    return f"holds byte 0x{byte:02x}, which is no UTF-8: write it as UTF-8, such as with  iconv -f LATIN1 -t UTF-8"


class _Cells(Iterator[list[str]]):
    """Rows of a table as cells, without blank lines. A quote that is never closed is an error, and so is one with
    something behind it: where rows begin and end is not known from there on.
    """

    def __init__(self, path: File, file: TextIO, **form: Any):
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default, 128 KB, is shorter than some documents
        self.path, self.line = path, 0
        self._is_over = False
        """Whether all lines are read."""
        self._latest = ""
        self._reader = csv.reader(self._lines(file), **form)

    def _lines(self, file: TextIO) -> Iterator[str]:
        for self._latest in file:
            yield self._latest
        self._is_over = True
        yield LAST

    def __next__(self) -> list[str]:
        while True:
            self.line = self._reader.line_num + 1
            try:
                cells = next(self._reader)
            except csv.Error as error:
                raise InputError(self._of_quotes(error)) from None
            if cells == [LAST]:
                raise StopIteration
            if cells:
                return cells

    def _of_quotes(self, error: csv.Error) -> str:
        """Why rows can't be told apart, and what to do."""
        after = self._reader.line_num - 1 - self.line
        if self._is_over:
            what = f"line {self.line} of {self.path.name} opens a quote that is never closed, and would take in the "
            what += f"{after} lines after it"
        else:
            what = f"line {self._reader.line_num} of {self.path.name} has something behind a quote that ends ({error})"
            what += f"; it began in line {self.line}" if after >= 0 else ""
        if '";' in self._latest or '"\t' in self._latest:
            return f"{what}: cells are separated by commas, or by tabs in a .tsv without quotes"
        if '\\"' in self._latest:
            return f'{what}: a quote within a text is doubled (""), and has no \\ before it'
        return f'{what}: close a quote where its text ends, or double it ("")'

    def records(self, names: list[str], *first: list[str]) -> Iterator[Record]:
        for cells in chain(first, self):
            if wrong := _no_utf8("".join(cells)):
                yield {BROKEN: f"line {self.line} of {self.path.name} {wrong}"}
            elif any(cells[len(names) :]):
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
    if sys.stdin is None:
        raise InputError("there is no standard input: it was closed")
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
    return io.TextIOWrapper(file, encoding=encoding, errors="surrogateescape", newline="")


def _json_lines(path: File, file: Iterable[str]) -> Iterator[Record]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        if wrong := _no_utf8(line):
            yield {BROKEN: f"line {number} of {path.name} {wrong}"}
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield {BROKEN: f"line {number} of {path.name} is not JSON: {error}"}
            continue
        yield record if isinstance(record, dict) else {"text": record}


def _plain(path: File, file: Iterable[str]) -> Iterator[Record]:
    for number, line in enumerate(file, 1):
        wrong = _no_utf8(line)
        yield {BROKEN: f"line {number} of {path.name} {wrong}"} if wrong else {"text": line.rstrip("\r\n")}


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
        names = b"\n".join(os.fsencode(p.relative_to(self.root)) for p in self.paths)
        return {"names": hashlib.blake2b(names, digest_size=16).hexdigest(), **contents(self.paths)}

    def records(self, start: int = 0) -> Iterator[Record]:
        for path in islice(self.paths, start, None):
            yield {"path": str(path), "label": path.parent.name}
