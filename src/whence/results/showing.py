"""Who draws what: `whence.viz` lies above the results and enters its functions here, by type of result and format."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whence import cancel
from whence.errors import InputError
from whence.files import write

__all__ = ["Drawn", "draw", "draws", "formats", "save_as"]

Drawer = Callable[[Any], Any]
_drawers: dict[tuple[type, str], Drawer] = {}


def draws(kind: type, *names: str) -> Callable[[Drawer], Drawer]:
    """Enter the decorated function as the one that draws results of type `kind` in these formats.

    Formats are file suffixes without the dot, and two that are shown: "notebook" (an HTML fragment) and "terminal"
    (something rich can print).
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
    return sorted(f".{name}" for name in known - {"notebook", "terminal"})


def save_as(result: Any, path: str | Path, own: dict[str, Callable[[], str | bytes]] | None = None) -> Path:
    """Write a result to `path` by its suffix: `own` are formats of the result itself, the others are drawn."""
    path, own = Path(path), own or {}
    kind = path.suffix.lower()
    if kind in own:
        content = own[kind]()
    elif kind in (drawn := formats(result)):
        content = draw(result, kind[1:])
    else:
        raise InputError(
            f"can't write this {type(result).__name__} as {path.name!r}: use a name that ends in "
            f"{' '.join(sorted({*own, *drawn}))}"
        )
    return write(path, content)


class Drawn:
    """A result that shows itself: in a notebook, in a terminal, and as plain text."""

    def _repr_html_(self) -> str:
        return str(draw(self, "notebook"))

    def __rich__(self) -> Any:
        return draw(self, "terminal")

    def __str__(self) -> str:
        return str(draw(self, "txt"))
