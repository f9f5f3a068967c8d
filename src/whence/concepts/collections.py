"""Examples of a concept: a folder of images, a file of texts, or a list of either, read before any long work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from whence.data.frames import is_series, values_of
from whence.data.labelled import read as read_rows
from whence.data.table_files import IMAGES
from whence.errors import EmptyInputError, InputError
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example

__all__ = ["Collection", "read"]


@dataclass(frozen=True)
class Collection:
    """Encoded inputs that belong together, and what to call them."""

    name: str
    examples: tuple[Example, ...]

    def __len__(self) -> int:
        return len(self.examples)


def read(adapter: AbstractAdapter, given: Any, role: str, least: int, name: str | None = None) -> Collection:
    """All of `given`, encoded. Errors say which argument (`role`) and which file is wrong."""
    if isinstance(given, Collection):
        return given
    items = _items(adapter, given, role)
    if not isinstance(items, (Tensor, dict)) and not len(items):
        raise EmptyInputError(f"{role} is empty: pass at least {least} inputs")
    try:
        examples, _ = adapter.encode(items)
    except InputError as error:
        raise type(error)(f"{role}: {error}") from error
    if len(examples) < least:
        raise InputError(f"{role} has {len(examples)} inputs and needs at least {least}: add more")
    # The picture as people see it is not needed here, and a pool of thousands would hold them all in memory.
    return Collection(name or _name(given, role), tuple(replace(e, image=None) for e in examples))


def _items(adapter: AbstractAdapter, given: Any, role: str) -> Any:
    if isinstance(given, (str, Path)):
        return _read(adapter, Path(given).expanduser(), role)
    if isinstance(given, np.ndarray):
        return list(given)
    if isinstance(given, (Tensor, dict)):
        return given
    if is_series(given):
        return values_of(given)
    if not isinstance(given, Sequence):
        raise InputError(f"{role} can't be {type(given).__name__}: pass a folder, a file of texts, or a list")
    return list(given)


def _read(adapter: AbstractAdapter, path: Path, role: str) -> list[Any]:
    """The images of a folder, the lines of a file, or the text files of a folder. Blank texts are left out."""
    if adapter.kind == "image":
        if not path.is_dir():
            kind = "is a file, not a folder" if path.is_file() else "does not exist"
            raise InputError(f"{role}: {str(path)!r} {kind}. Pass a folder of images, or a list of paths")
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in IMAGES and p.is_file())
        if not found:
            raise EmptyInputError(f"{role}: the folder {str(path)!r} holds no images ({' '.join(sorted(IMAGES))})")
        return list(found)
    if not path.exists():
        raise InputError(
            f"{role}: no such file {str(path)!r}. Pass a file with one text per line, or a list: [{str(path)!r}, …]"
        )
    try:
        if path.is_dir():
            texts = [p.read_text(encoding="utf-8") for p in sorted(path.glob("*.txt"))]
        else:
            texts = [str(row.input) for row in read_rows(path)]
    except UnicodeDecodeError as error:
        raise InputError(f"{role}: {str(path)!r} is not UTF-8 text: {error}") from None
    except InputError as error:
        raise type(error)(f"{role}: {error}") from None
    kept = [text.strip() for text in texts if text.strip()]
    if not kept:
        raise EmptyInputError(f"{role}: there is no text in {str(path)!r}")
    return kept


def _name(given: Any, role: str) -> str:
    return Path(given).stem if isinstance(given, (str, Path)) and Path(given).stem else role
