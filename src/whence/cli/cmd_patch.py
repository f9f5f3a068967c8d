"""`whence patch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from whence.cli.command import Column, Device, Dtype, Font, Remote, Target, Task, app, target_of
from whence.cli.screen import show, write
from whence.results.stored import spelled

__all__ = ["patch"]


@app.command()
def patch(
    model: Annotated[str, typer.Argument(help="Hub id, folder, or a bundled name.")],
    clean: Annotated[str, typer.Argument(help="A text.")],
    corrupt: Annotated[str, typer.Argument(help="Another with as many tokens.")],
    target: Target = None,
    at: Annotated[str, typer.Option(help="heads, mlps, attentions, layers or edges.")] = "heads",
    method: Annotated[
        str, typer.Option(help="partway, integrated_gradients, attribution, relp, activation (the truth), or a recipe.")
    ] = "partway",
    into: Annotated[str, typer.Option(help="The run that is patched: clean or corrupt.")] = "clean",
    truth: Annotated[bool, typer.Option("--truth", help="Run the model for each place as well.")] = False,
    truth_of: Annotated[
        int | None, typer.Option("--truth-of", metavar="N", help="Run it for the N largest estimates alone.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write to a file: .html .svg .pdf .png .json .txt")] = None,
    column: Column = None,
    font: Font = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """Which places inside a model carry what differs between two texts."""
    import whence

    loaded = whence.load(model, task=task, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    chosen: dict[str, Any] = {"at": at, "method": method, "into": into, "truth": truth_of or truth}
    result = whence.patch(loaded, clean, corrupt, target=target_of(target), **chosen)
    write(result, save, column, font)
    if as_json:
        typer.echo(spelled(result.to_dict()))
    else:
        show(result)
