"""Who draws what: `whence.viz` lies above the results and enters its functions here, by type of result and format."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from whence import cancel
from whence.errors import InputError
from whence.files import write
from whence.options import check

__all__ = ["Column", "Drawn", "Font", "Writers", "content", "draw", "draws", "formats", "save_as"]

Drawer = Callable[[Any], Any]
Writers: TypeAlias = Mapping[str, Callable[[], str | bytes]]
"""Formats that a result writes itself, by suffix."""
Column = Literal["single", "double"]
"""Columns of a paper, 3.25 and 6.75 inches wide."""
Font = Literal["sans", "serif"]
SHOWN = ("notebook", "terminal", "figure")
"""What is drawn and is no file."""
FIGURES = (".pdf", ".png", ".svg")
_drawers: dict[tuple[type, str], Drawer] = {}


def draws(kind: type, *names: str) -> Callable[[Drawer], Drawer]:
    """Enter the decorated function as the one that draws results of type `kind` in these formats.

    Formats are file suffixes without the dot, and three that are no files: "notebook" (an HTML fragment), "terminal"
    (something rich can print) and "figure" (a `whence.viz.Figure`).
    """

    def enter(function: Drawer) -> Drawer:
        for name in names:
            _drawers[kind, name] = function
        return function

    return enter


def draw(result: Any, name: str) -> Any:
    """The result in a format: text, bytes, or for "terminal" something that rich prints."""
    importlib.import_module("whence.viz")
    cancel.check()
    for kind in type(result).__mro__:
        if (kind, name) in _drawers:
            return _drawers[kind, name](result)
    raise InputError(f"can't draw this {type(result).__name__} as {name!r}: use {' '.join(formats(result))}")


def formats(result: Any) -> list[str]:
    """The file suffixes that a result can be drawn to."""
    importlib.import_module("whence.viz")
    known = {name for kind, name in _drawers if isinstance(result, kind)}
    return sorted(f".{name}" for name in known.difference(SHOWN))


def save_as(
    result: Any,
    path: str | Path,
    own: Writers | None = None,
    *,
    column: Column | None = None,
    font: Font | None = None,
) -> Path:
    """Write a result to `path` by its suffix: `own` are formats of the result itself, the others are drawn.

    `column` and `font` are of figures for a paper.
    """
    check("column", column, Column | None, "save")
    check("font", font, Font | None, "save")
    path, own = Path(path), own or {}
    kind = path.suffix.lower()
    drawn = formats(result)
    if kind not in own and kind not in drawn:
        raise InputError(
            f"can't write this {type(result).__name__} as {path.name!r}: use a name that ends in "
            f"{' '.join(sorted({*own, *drawn}))}"
        )
    if column is not None or font is not None:
        if kind not in FIGURES:
            raise InputError(f"column= and font= are of figures, and {path.name!r} is none: use {' '.join(FIGURES)}")
        return write(path, draw(result, "figure").on_paper(kind, column, font))
    return write(path, own[kind]() if kind in own else draw(result, kind[1:]))


def content(result: Drawn, name: str) -> str | bytes:
    """A file of the result in a format ("svg", "json"), as `save` would write it."""
    own = result._writers()
    made: str | bytes = own[f".{name}"]() if f".{name}" in own else draw(result, name)
    return made


class Drawn:
    """A result that shows itself, in a notebook, in a terminal and as plain text, and saves itself."""

    def save(self, path: str | Path, *, column: Column | None = None, font: Font | None = None) -> Path:
        """Write to `path`; the suffix decides the format: .json and .npz are exact, the others are for people.

        Arguments:
            path: where to; a suffix that is not known gives an error that lists those that are.
            column: of a figure (.pdf .svg .png), "single" makes it 3.25 inches wide and "double" 6.75, with letters
                for print, and text in .svg as outlines.
            font: of a figure, "serif" or "sans".
        """
        return save_as(self, path, self._writers(), column=column, font=font)

    def _writers(self) -> Writers:
        """Formats beyond those that are drawn."""
        return {}

    def _repr_html_(self) -> str:
        return str(draw(self, "notebook"))

    def __rich__(self) -> Any:
        shown = draw(self, "terminal")
        return importlib.import_module("whence.viz.hues").Hued(shown)

    def __str__(self) -> str:
        return str(draw(self, "txt"))
