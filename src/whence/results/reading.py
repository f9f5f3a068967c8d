"""Files that results were saved to: what is no such file is said in words."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from whence.errors import InputError

__all__ = ["reading"]

SMALL, RATIO = 64 * 2**20, 100
"""Bytes that any file may take in memory, and how many times its own size a larger one may."""
BROKEN = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, EOFError, RecursionError, MemoryError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a file of any content may raise."""


@contextmanager
def reading(path: Path, *kinds: str) -> Iterator[None]:
    """Read a file of one of these suffixes in this block: what fails there is an `InputError` that names the file."""
    if path.suffix.lower() not in kinds:
        raise InputError(f"can't read {path.name!r}: save as {' or '.join(kinds)} to load again")
    try:
        if path.suffix.lower() == ".npz":
            _refuse_bomb(path)
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"no such file: {str(path)!r}") from None
    except BROKEN as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise InputError(f"{path.name!r} is damaged, or no result of whence ({why})") from None


def _refuse_bomb(path: Path) -> None:
    """A small file can say that it holds any number of zeros."""
    with zipfile.ZipFile(path) as file:
        size = sum(entry.file_size for entry in file.infolist())
    if size > max(SMALL, RATIO * path.stat().st_size):
        raise InputError(f"{path.name!r} would take {size / 1e6:.0f} MB of memory, which no result of its size does")
