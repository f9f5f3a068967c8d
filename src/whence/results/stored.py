"""Results as they are stored: values as JSON, or as an .npz with arrays beside them.

What is no such file is said in words.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import InputError

__all__ = ["opened", "packed", "refuse_bomb", "spelled"]

META = "meta"
"""Where an .npz has the values."""

SMALL, RATIO = 64 * 2**20, 100
"""Bytes that any file may take in memory, and how many times its own size a larger one may."""
BROKEN = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, EOFError, MemoryError, ArithmeticError,
    RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a file of any content may raise."""


def spelled(values: Any, indent: int | None = None) -> str:
    """Values as JSON; what it does not know becomes text."""
    return json.dumps(values, ensure_ascii=False, indent=indent, default=str)


def packed(values: Any, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Values and arrays as an .npz."""
    file = io.BytesIO()
    np.savez_compressed(file, **{META: np.array(spelled(values))}, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


@contextmanager
def opened(path: str | Path, *kinds: str) -> Iterator[tuple[Any, dict[str, np.ndarray]]]:
    """The values and the arrays in a file of one of these suffixes.

    What fails in reading it, or in the block, is an `InputError` that names the file.
    """
    path = Path(path)
    if path.suffix.lower() not in kinds:
        raise InputError(f"can't read {path.name!r}: save as {' or '.join(kinds)} to load again")
    try:
        if path.suffix.lower() == ".npz":
            _refuse_bomb(path)
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            values = json.loads(str(arrays.pop(META)))
        else:
            arrays, values = {}, json.loads(path.read_text(encoding="utf-8"))
        yield values, arrays
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
        refuse_bomb(sum(entry.file_size for entry in file.infolist()), path.stat().st_size)


def refuse_bomb(size: int, held: int) -> None:
    """An error for what would take many times the memory of the file that it is held in."""
    if size > max(SMALL, RATIO * held):
        raise ValueError(f"it would take {size / 1e6:.0f} MB of memory, which no result of its size does")
