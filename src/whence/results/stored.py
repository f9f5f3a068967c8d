"""Results as they are stored: values as JSON, or as an .npz with arrays beside them.

What is no such file is said in words.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import InputError

__all__ = ["opened", "packed", "refuse_bomb", "spelled"]

KINDS = {
    "whence.Comparison": {"explanations"},
    "whence.Several": {"several"},
    "whence.Trace": {"written", "whole"},
    "whence.Inside": {"by_token"},
    "whence.Pair": {"left", "right"},
    "whence.Patching": {"effects"},
    "whence.AttributionGraph": {"whence", "nodes"},
    "whence.Citations": {"statements"},
    "whence.Recipe": {"linear", "conv"},
    "whence.results.AttentionMaps": {"decoder_tokens"},
    "whence.results.Evaluation": {"measured"},
    "whence.results.concept_scores.TCAV": {"kind", "concept"},
    "whence.results.diagnosis.Diagnosis": {"sections"},
    "whence.Explanation": {"scores", "prediction"},
}
"""What reads a file back, and the names that only files of its kind have."""

EXACT = (".json", ".npz")
"""What is read back."""
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
def opened(path: str | Path, kind: str, *suffixes: str) -> Iterator[tuple[Any, dict[str, np.ndarray]]]:
    """The values and the arrays in a file of one of these suffixes, which holds a result of this kind.

    What fails in reading it, or in the block, is an `InputError` that names the file.
    """
    path = Path(path)
    if path.suffix.lower() not in EXACT:
        raise _not_exact(path, suffixes)
    try:
        values, arrays = _read(path)
        _refuse_other(values, kind, path)
        if path.suffix.lower() not in suffixes:
            raise _not_exact(path, suffixes)
        yield values, arrays
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"no such file: {str(path)!r}") from None
    except BROKEN as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise InputError(f"{path.name!r} is damaged, or no result of whence ({why})") from None


def _not_exact(path: Path, suffixes: Sequence[str]) -> InputError:
    return InputError(f"can't read {path.name!r}: save as {' or '.join(suffixes)} to load again")


def _read(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    if path.suffix.lower() != ".npz":
        return json.loads(path.read_text(encoding="utf-8")), {}
    _refuse_bomb(path)
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(str(arrays.pop(META))), arrays


def _refuse_other(values: Any, kind: str, path: Path) -> None:
    """An error for a file that holds a result of another kind."""
    held = next((name for name, own in KINDS.items() if isinstance(values, dict) and own <= values.keys()), kind)
    if held != kind:
        name = held.rpartition(".")[2]
        raise InputError(f"{path.name!r} holds another kind of result, {name}: read it with {held}.load")


def _refuse_bomb(path: Path) -> None:
    """A small file can say that it holds any number of zeros."""
    with zipfile.ZipFile(path) as file:
        refuse_bomb(sum(entry.file_size for entry in file.infolist()), path.stat().st_size)


def refuse_bomb(size: int, held: int) -> None:
    """An error for what would take many times the memory of the file that it is held in."""
    if size > max(SMALL, RATIO * held):
        raise ValueError(f"it would take {size / 1e6:.0f} MB of memory, which no result of its size does")
