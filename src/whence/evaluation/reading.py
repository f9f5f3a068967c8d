"""Labelled data from files: .tsv, .csv, .jsonl, or a text per line; .gz of each. And a small set of our own."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from whence.errors import EmptyInputError, InputError

__all__ = ["built_in", "read"]


def built_in() -> list[dict[str, Any]]:
    """Sixty sentences of our own about films, books, meals and machines; half of them positive."""
    text = (resources.files("whence") / "evaluation" / "sentences.tsv").read_text(encoding="utf-8")
    return _tsv(text)


def read(path: str | Path) -> list[dict[str, Any]]:
    """Rows with "text" and, where the file has them, "label" and "rationale"."""
    path = Path(path)
    kind = path.with_suffix("").suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
        rows = READERS.get(kind, _lines)(raw.decode("utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such file: {str(path)!r}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8 text: {error}") from None
    except (gzip.BadGzipFile, json.JSONDecodeError, csv.Error) as error:
        raise InputError(f"{str(path)!r} can't be read: {error}") from None
    if not rows:
        raise EmptyInputError(f"there is no text in {str(path)!r}")
    return rows


def _tsv(text: str) -> list[dict[str, Any]]:
    """label TAB text. A first line that names its columns is a header."""
    lines = [line for line in text.splitlines() if line.strip()]
    first = [cell.strip().lower() for cell in lines[0].split("\t")] if lines else []
    if "label" in first and ({"text", "sentence"} & set(first)):
        return _columns(csv.DictReader(io.StringIO("\n".join(lines)), delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = []
    for n, line in enumerate(lines, 1):
        label, tab, sentence = line.partition("\t")
        if not tab:
            raise InputError(f"line {n} has no tab: a .tsv file holds label TAB text")
        rows.append({"text": sentence, "label": label.strip()})
    return rows


def _csv(text: str) -> list[dict[str, Any]]:
    return _columns(csv.DictReader(io.StringIO(text)))


def _columns(reader: csv.DictReader) -> list[dict[str, Any]]:
    rows = [{str(k).strip().lower(): v for k, v in row.items() if k is not None} for row in reader]
    if rows and not ({"text", "sentence"} & set(rows[0])):
        raise InputError(f"no column 'text' or 'sentence' among {sorted(rows[0])}")
    return rows


def _jsonl(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _lines(text: str) -> list[dict[str, Any]]:
    return [{"text": line} for line in text.splitlines() if line.strip()]


READERS: dict[str, Callable[[str], list[dict[str, Any]]]] = {".tsv": _tsv, ".csv": _csv, ".jsonl": _jsonl}
