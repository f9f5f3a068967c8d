"""The notebooks of examples/notebooks as pages: their cells, and what running them gives."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from docs.generate.written import ROOT

__all__ = ["NOTEBOOKS", "Cell", "cells", "notebook_pages", "played"]

FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = {
    "first_steps": "First steps",
    "pictures_and_sounds": "Pictures and sounds",
    "evaluating_methods": "Evaluating methods",
}
"""Names and titles, in the order to read them."""


@dataclass(frozen=True)
class Cell:
    """Words or code; after running, what it printed and the value of its last line."""

    kind: str
    source: str
    printed: str = ""
    value: Any = None


def cells(name: str) -> list[Cell]:
    """The cells of a notebook."""
    held = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [Cell(cell["cell_type"], "".join(cell["source"])) for cell in held["cells"]]


def played(name: str, folder: Path) -> Iterator[Cell]:
    """The cells one after the other, run in a folder as Jupyter would."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(name):
        if cell.kind != "code":
            yield cell
            continue
        tree = ast.parse(cell.source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        said = io.StringIO()
        with chdir(folder), redirect_stdout(said):
            exec(compile(tree, name, "exec"), names)
            value = eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None
        yield Cell(cell.kind, cell.source, said.getvalue().rstrip(), value)


def notebook_pages(folder: Path) -> dict[str, str]:
    """`notebooks/NAME.md`; figures go to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {f"notebooks/{name}.md": _page(name, folder) for name in NOTEBOOKS}


def _page(name: str, folder: Path) -> str:
    with TemporaryDirectory() as own:
        shown = list(played(name, Path(own)))
    lines: list[str] = []
    for n, cell in enumerate(shown):
        if cell.kind == "markdown":
            lines += [cell.source, ""]
            continue
        lines += [f"```python\n{cell.source}\n```", ""]
        if cell.printed:
            lines += [f"```text\n{cell.printed}\n```", ""]
        if hasattr(cell.value, "save"):
            cell.value.save(folder / f"{name}-{n}.svg")
            lines += [f"![What the cell shows]({name}-{n}.svg)", ""]
        elif cell.value is not None:
            lines += [f"```text\n{cell.value!r}\n```", ""]
    lines += [f"[Download the notebook]({name}.ipynb). It runs offline, with the models of the package.", ""]
    return "\n".join(lines)
