"""What the user passed as data, as a data set."""

from __future__ import annotations

import glob
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from whence.data.dataset import AbstractDataset, IterableDataset, Record
from whence.data.frames import Batches, FrameDataset, is_frame, is_series, settled, values_of
from whence.data.remote import is_remote, remote_files, shown_address
from whence.data.table_files import (
    FORMATS,
    IMAGES,
    File,
    ImageFolder,
    LinesDataset,
    ParquetDataset,
    format_of,
    standard_input,
)
from whence.errors import InputError
from whence.extras import need

__all__ = ["HubDataset", "open_dataset", "open_files"]

RUN = ("_journal.jsonl", "_manifest.json")
"""What `whence run` keeps beside its shards: what was explained is no data of a folder above it."""


def open_dataset(
    data: Any, *, split: str = "train", subset: str | None = None, wanted: Sequence[str] = ()
) -> AbstractDataset:
    """A path, pattern or address (s3://…), "-" for standard input, a hub id, a frame, or an iterable, as a data set.

    `wanted` are columns that it should have.

    >>> [row["text"] for row in open_dataset(["a gem", "so dull"]).records(1)]
    ['so dull']
    """
    if isinstance(data, AbstractDataset):
        return data
    if isinstance(data, (str, Path)):
        if not str(data):
            raise InputError("the name of the data is empty: pass a file, a folder, a hub id, or '.' for this folder")
        return _named(str(data), split, subset, wanted)
    given, data = data, settled(data)
    if is_frame(data):
        return FrameDataset(data)
    if is_series(data):
        name = getattr(data, "name", None) or "text"
        return IterableDataset(values_of(data), f"a {type(data).__name__}", str(name))
    if isinstance(data, Batches):
        return IterableDataset(data.once or data, f"a {type(given).__name__}")
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        hint = ""
        if isinstance(data, Mapping):
            hint = ". Columns in a dict make a frame: pandas.DataFrame(data)"
        elif inspect.isgeneratorfunction(data):
            hint = f". A generator has to be called: {data.__name__}()"
        raise InputError(
            f"can't read rows from {type(data).__name__}: pass a path, a hub id, a frame, or an iterable of texts or "
            f"dicts{hint}"
        )
    return IterableDataset(data)


def _named(name: str, split: str, subset: str | None, wanted: Sequence[str]) -> AbstractDataset:
    if name == "-":
        return IterableDataset(standard_input(), "standard input")
    if is_remote(name):
        return _remote(name, wanted)
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(path, wanted)
    if path.is_file():
        return open_files([path], name, wanted=wanted)
    if any(c in name for c in "*?["):
        found = sorted(map(Path, glob.glob(str(path))))
        if not found:
            raise InputError(f"no file matches {name!r}")
        return open_files(found, name, wanted=wanted)
    looks_like_path = path.is_absolute() or name.startswith(("./", "../", "~")) or path.suffix in (*FORMATS, ".gz")
    if looks_like_path or name.count("/") > 1:
        raise InputError(f"no such file or folder: {name!r}")
    return HubDataset(name, split, subset)


def open_files(
    paths: Sequence[File],
    name: str,
    *,
    wanted: Sequence[str] = (),
    otherwise: str | None = None,
    strict: bool = False,
    once: Sequence[str] = (),
) -> AbstractDataset:
    """Files of one format; `otherwise` is the format of names that say none. Of each column that is wanted, or shall be
    there `once`, there may not be two."""
    formats = {format_of(p) or otherwise for p in paths}
    if formats == {"parquet"}:
        return ParquetDataset(paths, name, once=(*once, *wanted))
    if len(formats) == 1 and None not in formats:
        return LinesDataset(paths, name, str(formats.pop()), wanted=wanted, strict=strict, once=(*once, *wanted))
    unknown = next((p for p in paths if format_of(p) is None), None)
    if unknown is not None:
        raise InputError(
            f"{unknown.name!r} has a format that whence can't read. It reads {', '.join(FORMATS)} (text formats also "
            "as .gz), folders of images or of such files, and hub data sets"
        )
    raise InputError(f"{name!r} mixes formats ({', '.join(sorted(map(str, formats)))}): pass one kind, such as '*.csv'")


def _folder(path: Path, wanted: Sequence[str]) -> AbstractDataset:
    runs = {book.parent for book in path.rglob(RUN[0]) if book.with_name(RUN[1]).is_file()} - {path}
    files = sorted(
        p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".", "_")) and runs.isdisjoint(p.parents)
    )
    data = [p for p in files if format_of(p) is not None]
    images = [p for p in files if p.suffix.lower() in IMAGES]
    if images and len(images) >= len(data):
        return ImageFolder(images, path)
    if not data:
        raise InputError(f"the folder {str(path)!r} holds neither data files ({', '.join(FORMATS)}) nor images")
    return open_files(data, str(path), wanted=wanted)


def _remote(address: str, wanted: Sequence[str]) -> AbstractDataset:
    files, name = remote_files(address), shown_address(address)
    data = [file for file in files if format_of(file) is not None] if len(files) > 1 else files
    if not data:
        raise InputError(
            f"{name!r} holds no data files ({', '.join(FORMATS)}). Images are read from this machine: copy them here"
        )
    return open_files(data, name, wanted=wanted)


class HubDataset(AbstractDataset):
    """A data set of the hub, streamed by the `datasets` library."""

    def __init__(self, name: str, split: str, subset: str | None):
        self.name, self.split = name, split
        library = need("datasets", "", f"there is no file {name!r} here, and a data set of that name from the hub")
        takes = inspect.signature(library.load_dataset).parameters
        own = {"trust_remote_code": False} if "trust_remote_code" in takes else {}  # later versions run none at all
        try:
            self._data = library.load_dataset(name, subset, split=split, streaming=True, **own)
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

    def records(self, start: int = 0) -> Iterator[Record]:
        return iter(
            self._data.skip(start) if start and hasattr(self._data, "skip") else islice(self._data, start, None)
        )
