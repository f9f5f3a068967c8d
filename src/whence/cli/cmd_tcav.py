"""`whence tcav`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.command import Column, Device, Dtype, Font, Remote, Task, app, target_of
from whence.cli.screen import write
from whence.options import whole_number
from whence.results.stored import spelled

__all__ = ["tcav"]

INPUTS = "a folder of images, or a file with one text per line"


@app.command()
def tcav(
    model: Annotated[str, typer.Argument(help="Bundled name, hub id, or folder.")],
    target: Annotated[str, typer.Option("--target", "-t", help="Label, class number, or 'A|B' for A rather than B.")],
    examples: Annotated[str, typer.Option(help=f"Inputs of the target class: {INPUTS}.")],
    concept: Annotated[str, typer.Option(help=f"Examples of the concept: {INPUTS}.")],
    counter: Annotated[str | None, typer.Option(help="What the concept is set against.")] = None,
    randoms: Annotated[str | None, typer.Option(help="Pool of random inputs.")] = None,
    layer: Annotated[str | None, typer.Option(help="Block number, module name, 'all', or several: 3,10.")] = None,
    pool: Annotated[str | None, typer.Option(help="flatten, mean, cls or last.")] = None,
    runs: Annotated[int, typer.Option(help="Concept vectors per layer, and as many for chance.")] = 30,
    size: Annotated[int | None, typer.Option(help="Examples on each side of a vector.")] = None,
    standardise: Annotated[bool, typer.Option("--standardise/--raw", help="Fit on standardised features.")] = True,
    seed: Annotated[int, typer.Option(help="Decides every draw.")] = 0,
    batch_size: Annotated[int, typer.Option(help="Inputs in a batch.")] = 16,
    cache: Annotated[Path | None, typer.Option(help="Folder that keeps activations between calls.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write to a file: .html .svg .pdf .png .tex .csv .json")] = None,
    column: Column = None,
    font: Font = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """How a class answers a concept: concept activation vectors, with a significance test."""
    import whence

    loaded = whence.load(model, task=task, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    result = whence.tcav(
        loaded, target=target_of(target), examples=examples, concept=concept, counter=counter, randoms=randoms,
        layer=_layer(layer), pool=pool, runs=runs, size=size, standardise=standardise, seed=seed,
        batch_size=batch_size, cache=cache,
    )  # fmt: skip
    write(result, save, column, font)
    if as_json:
        typer.echo(spelled(result.to_dict()))
        return
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        console.print(result)
    else:
        typer.echo(str(result))


def _layer(text: str | None) -> int | str | list[int | str] | None:
    """What was typed as --layer: numbers become numbers."""
    if text is None:
        return None
    parts = [p if (number := whole_number(p)) is None else number for p in text.split(",") if p]
    return parts[0] if len(parts) == 1 else parts
