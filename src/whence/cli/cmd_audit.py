"""`whence audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.command import Column, Device, Dtype, Font, Target, Task, app, target_of
from whence.cli.screen import write

__all__ = ["audit"]


@app.command()
def audit(
    model: Annotated[str, typer.Argument(help="Bundled name, hub id, or folder.")] = "sentiment",
    text: Annotated[str, typer.Argument(help="What to explain.")] = "a gorgeous, witty, seductive movie",
    recipe: Annotated[str, typer.Option(help="Recipe to audit.")] = "exact",
    target: Target = None,
    save: Annotated[Path | None, typer.Option(help="Write to a file: .html .json .svg .pdf .png .tex .txt")] = None,
    column: Column = None,
    font: Font = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Account for every unit of relevance, by function and by layer."""
    import whence

    loaded = whence.load(model, task=task, device=device, dtype=dtype)
    found = whence.audit(loaded, text, recipe=recipe, target=target_of(target))
    write(found, save, column, font)
    typer.echo(str(found))
