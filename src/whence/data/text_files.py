"""Documents to cite from: text files, folders of them, and lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from whence.errors import InputError

__all__ = ["read_documents"]

TEXTS = (".txt", ".md")
LINES = ".jsonl"


def read_documents(paths: Iterable[str | Path]) -> list[dict[str, str]]:
    """Rows with "title" and "text": a text file is one document, named after it; a line of a .jsonl file is one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "guide.txt").write_text("It was built in 1889.")
    ...     read_documents([folder])
    [{'title': 'guide', 'text': 'It was built in 1889.'}]
    """
    made = [row for path in paths for row in _rows(Path(path).expanduser())]
    if not made:
        raise InputError("there are no documents: pass text files, a folder of them, or a .jsonl file")
    return made


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if one.is_file() and one.suffix.lower() in TEXTS)
        if not found:
            raise InputError(f"there is no text in the folder {str(path)!r}: it holds no {' or '.join(TEXTS)} file")
        for one in found:
            yield from _rows(one)
    elif not path.exists():
        raise InputError(f"no such file or folder: {str(path)!r}")
    elif path.suffix.lower() == LINES:
        yield from _lines(path)
    elif path.suffix.lower() in TEXTS:
        text = _read(path)
        if not text.strip():
            raise InputError(f"there is no text in {str(path)!r}: take it out, or name the files that you mean")
        yield {"title": path.stem, "text": text}
    else:
        raise InputError(f"can't read {str(path)!r} as a document: use {', '.join(TEXTS)} or {LINES}")


def _lines(path: Path) -> Iterator[dict[str, str]]:
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"line {number} of {str(path)!r} is no JSON: {error}") from None
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise InputError(f'line {number} of {str(path)!r} has no "text": write {{"title": "…", "text": "…"}}')
        title = row.get("title")
        yield {"title": str(title) if title is not None else f"{path.stem} {number}", "text": text}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8 text: {error}") from None
