"""`whence graph`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.command import Column, Device, Dtype, Font, Remote, Task, app, target_of
from whence.cli.screen import show, write
from whence.results.stored import spelled

__all__ = ["graph"]


@app.command()
def graph(
    item: Annotated[str, typer.Argument(metavar="INPUT", help="A text, or the path of an image.")],
    model: Annotated[str, typer.Option("--model", "-m", help="Bundled model, hub id or folder.")] = "sentiment",
    method: Annotated[str, typer.Option(help="exact (lrp), cp_lrp or ah_ln.")] = "lrp",
    target: Annotated[str | None, typer.Option(help="Class or word; the prediction by default.")] = None,
    continuation: Annotated[str | None, typer.Option(help="For language models: the text that is explained.")] = None,
    share: Annotated[float, typer.Option(help="How much of what all edges of a layer carry is kept.")] = 0.8,
    save: Annotated[Path | None, typer.Option(help="Write to a file: .html .json .svg .pdf .png .txt")] = None,
    column: Column = None,
    font: Font = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """Show through which heads and layers a prediction came from which tokens."""
    import whence

    loaded = whence.load(model, task=task, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    result = whence.graph(loaded, item, method, target_of(target), share=share, continuation=continuation)
    write(result, save, column, font)
    if as_json:
        typer.echo(spelled(result.to_dict()))
    else:
        show(result)
