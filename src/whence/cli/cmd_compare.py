"""`whence compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.command import Column, Device, Dtype, Font, Model, Target, Task, app, target_of
from whence.cli.screen import write

__all__ = ["compare"]


@app.command()
def compare(
    text: Annotated[str, typer.Argument(help="A text, or the path of an image.")],
    model: Model = "sentiment",
    methods: Annotated[str, typer.Option(help="Comma-separated names.")] = "lrp,ah_ln,attn_lrp,gi",
    target: Target = None,
    special: Annotated[bool, typer.Option("--special/--no-special")] = True,
    save: Annotated[Path | None, typer.Option(help="Write to a file; the suffix decides the format.")] = None,
    column: Column = None,
    font: Font = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """One line per method: the same input, the same target, side by side."""
    from rich.console import Console

    import whence

    loaded = whence.load(model, task=task, device=device, dtype=dtype)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    results = whence.compare(loaded, text, names, target_of(target), special_tokens=special)
    write(results, save, column, font)
    console = Console()
    console.print(results) if console.is_terminal else typer.echo(str(results))
