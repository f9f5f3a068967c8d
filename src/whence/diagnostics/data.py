"""Data to diagnose with: files of texts or of labelled texts, and a few sentences of our own."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from whence.errors import EmptyInputError, InputError

__all__ = ["parsed", "read", "sentences"]


def sentences() -> list[tuple[str, str]]:
    """Forty short sentences about films as (text, label), half of them positive.

    >>> sentences()[0]
    ('a warm and funny film that stays with you for days', 'positive')
    """
    text = (resources.files("whence") / "diagnostics" / "sentences.tsv").read_text(encoding="utf-8")
    return parsed(text, "sentences.tsv")  # type: ignore[return-value]


def read(path: Path) -> list[str] | list[tuple[str, str]]:
    """A file with a text on each line, or `label<TAB>text`."""
    try:
        return parsed(path.read_text(encoding="utf-8"), path.name)
    except FileNotFoundError:
        raise InputError(f"no such file: {str(path)!r}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name!r} is not UTF-8 text: {error}") from None


def parsed(text: str, name: str) -> list[str] | list[tuple[str, str]]:
    """Lines as texts, or as (text, label) where every line has a tab. Empty lines are skipped."""
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise EmptyInputError(f"there is no text in {name!r}")
    tabs = [line.count("\t") for _, line in lines]
    if not any(tabs):
        return [line.strip() for _, line in lines]
    wrong = next((n for (n, _), tab in zip(lines, tabs, strict=True) if tab != 1), None)
    if wrong is not None:
        raise InputError(f"line {wrong} of {name!r} is not label<TAB>text, and other lines are: write all of them so")
    pairs = [line.split("\t") for _, line in lines]
    return [(text.strip(), label.strip()) for label, text in pairs]
