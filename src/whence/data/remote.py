"""Files of other machines: `s3://bucket/reviews.parquet`, and whatever else pyarrow or fsspec can open.

A `RemoteFile` offers what is used of a `Path`, so those who read files need not know where these are. Credentials and
addresses of servers are found as pyarrow finds them: AWS_PROFILE, AWS_ENDPOINT_URL, …; they may also stand in the
address, behind `?`, and what stands there is never shown.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import IO, Any
from urllib.parse import urlsplit

from whence.errors import InputError, WhenceError
from whence.extras import need

__all__ = ["RemoteFile", "is_remote", "redacted", "remote_files", "shown_address"]

NATIVE = frozenset("s3 gs gcs hdfs viewfs abfs abfss".split())
"""What pyarrow opens by itself; the rest is fsspec's."""


def is_remote(name: str) -> bool:
    """Whether a name is the address of a file elsewhere.

    >>> [is_remote(name) for name in ("s3://bucket/a.csv", "a.csv", "user/dataset", "C://a.csv")]
    [True, False, False, False]
    """
    scheme, found, _ = name.partition("://")
    return bool(found) and len(scheme) > 1 and scheme.replace("+", "").isalnum() and scheme != "file"


def shown_address(address: str) -> str:
    """Without what may be secret: a password, a signature, a key.

    >>> shown_address("s3://key:secret@bucket/a.csv?endpoint_override=localhost")
    's3://bucket/a.csv'
    """
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


ADDRESS = re.compile(r"(?<![\w+])([a-z][a-z0-9+]+://)(?:[^\s/'\"]*@)?([^\s?'\"]*)(?:\?[^\s'\"()]*)?", re.IGNORECASE)


def redacted(error: object) -> str:
    """What an error says, with the addresses in it as they are shown: those who open files quote them whole.

    >>> redacted(OSError("403 from 'https://me:word@host/a.csv?signature=abc', twice"))
    "403 from 'https://host/a.csv', twice"
    """
    return ADDRESS.sub(r"\1\2", str(error))


@dataclass(frozen=True)
class RemoteFile:
    """One file, read from where it is."""

    system: Any
    """A file system of pyarrow."""
    path: str
    size: int
    address: str
    """For people, without what may be secret: a signature would also hide what the name ends in."""

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        return PurePosixPath(self.address).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.address).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.address).suffix

    def stat(self) -> Any:
        return SimpleNamespace(st_size=self.size)

    def open(self, mode: str = "r", **text: Any) -> IO[Any]:
        """As `Path.open`, for reading."""
        file = io.BufferedReader(self.system.open_input_stream(self.path, compression=None), 2**20)
        return file if "b" in mode else io.TextIOWrapper(file, **text)

    def random(self) -> Any:
        """For readers that jump, such as those of Parquet."""
        return self.system.open_input_file(self.path)


def remote_files(address: str) -> list[RemoteFile]:
    """The files at an address: one, those of a folder, or those that a pattern in the last part matches."""
    shown = shown_address(address)
    root, _, pattern = shown.rpartition("/")
    is_pattern = any(c in pattern for c in "*[")
    if any(c in root for c in "*["):
        raise InputError(f"{shown!r}: elsewhere than on this machine, only the last part of a name may be a pattern")
    try:
        system, path = _opened(address.replace(f"/{pattern}", "", 1) if is_pattern else address)
        found = _listed(system, path, is_pattern)
    except WhenceError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's own errors are both
        raise InputError(f"{shown!r} can't be read: {_first_line(error)}") from None
    root = root if is_pattern else shown.rstrip("/")
    files = [
        RemoteFile(system, info.path, info.size, "/".join(filter(None, (root, info.path[len(path) :].strip("/")))))
        for info in sorted(found, key=lambda info: info.path)
        if not is_pattern or fnmatchcase(PurePosixPath(info.path).name, pattern)
    ]
    if not files:
        raise InputError(f"no file matches {shown!r}" if is_pattern else f"no such file or folder: {shown!r}")
    return files


def _opened(address: str) -> tuple[Any, str]:
    """A file system of pyarrow, and the path in it."""
    fs = need("pyarrow.fs", "data", f"reading {shown_address(address)!r}")
    if urlsplit(address).scheme in NATIVE:
        system, path = fs.FileSystem.from_uri(address)
        return system, path.rstrip("/")
    library = need("fsspec", "", f"reading {shown_address(address)!r}")
    try:
        system, path = library.core.url_to_fs(address)
    except ImportError as error:  # fsspec knows what to install for each of its file systems
        raise InputError(f"{shown_address(address)!r} can't be read: {redacted(error)}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path.rstrip("/")


def _listed(system: Any, path: str, is_folder: bool) -> list[Any]:
    fs = need("pyarrow.fs", "data", "reading files of other machines")
    (info,) = system.get_file_info([path])
    if info.type == fs.FileType.File and not is_folder:
        return [info]
    if info.type != fs.FileType.Directory:
        return []
    below = system.get_file_info(fs.FileSelector(path, recursive=not is_folder))
    return [one for one in below if one.type == fs.FileType.File and not one.base_name.startswith((".", "_"))]


def _first_line(error: Exception) -> str:
    return (redacted(error).strip().splitlines() or [type(error).__name__])[0][:300]
