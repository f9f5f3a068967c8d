"""Files that are there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from whence.errors import InputError

__all__ = ["append", "digest_of_file", "publish", "replaced", "sync_folder", "write"]


def write(path: str | Path, content: str | bytes, *, durable: bool = False) -> Path:
    """Write a file, all or nothing; with `durable` also after a power cut.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder) / "a.txt", "one").read_text()
    'one'
    """
    path = Path(path)
    data = content if isinstance(content, bytes) else content.encode()
    with replaced(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        sync_folder(path.parent)
    return path


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; what was written there takes its place at the end, or vanishes on an error.

    Several processes may write the same file: each has a name of its own.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except FileNotFoundError:
        raise InputError(f"can't write {str(path)!r}: there is no folder {str(path.parent)!r}") from None
    finally:
        temporary.unlink(missing_ok=True)


def publish(temporary: Path, final: Path) -> None:
    """Give a file that was written and synced its name. The rename itself is synced too."""
    os.replace(temporary, final)
    sync_folder(final.parent)


def digest_of_file(path: Path) -> str:
    """A digest of every byte."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def append(path: Path, lines: str) -> None:
    """Add whole lines to a journal, on disk before this returns. A line that a crash cut off is ended first."""
    is_new = not path.exists()
    with path.open("ab") as file:
        file.write((("" if is_new or _ends_well(path) else "\n") + lines).encode())
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        sync_folder(path.parent)


def _ends_well(path: Path) -> bool:
    if not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def sync_folder(path: Path) -> None:
    """Make the names in a folder last. Windows has no way to do that, and needs none."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
