"""`whence evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.command import Column, Data, Device, Dtype, Font, Model, Remote, Task, Truncate, app

__all__ = ["evaluate"]

METHODS = "random,gi,ah_ln,attn_lrp,lrp"
QUICK = 24
"""Examples of --quick."""


@app.command()
def evaluate(
    model: Model = "sentiment",
    data: Data = None,
    methods: Annotated[str, typer.Option(help="Comma-separated names, or paths of saved recipes.")] = METHODS,
    metrics: Annotated[str, typer.Option(help="Comma-separated names.")] = "auac,au_mse",
    target: Annotated[str | None, typer.Option(help="Explain the 'predicted' class or the 'true' label.")] = None,
    protocol: Annotated[str | None, typer.Option(help="'ali': the settings of Ali et al. 2022.")] = None,
    order: Annotated[str | None, typer.Option(help="Rank features 'signed' or 'absolute'.")] = None,
    fill: Annotated[str | None, typer.Option(help="unk, mask, pad or delete.")] = None,
    special: Annotated[str | None, typer.Option(help="Special tokens: 'kept' or 'counted'.")] = None,
    limit: Annotated[int | None, typer.Option(help="Draw this many examples.")] = None,
    seed: Annotated[int, typer.Option(help="Of the draw and the bootstrap.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK} examples: a minute on two cores.")] = False,
    truncate: Truncate = False,
    resume: Annotated[Path | None, typer.Option(help="Journal to go on with after an interruption.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write to a file: .html .pdf .svg .png .tex .md .csv …")] = None,
    column: Column = None,
    font: Font = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """Measure how faithful methods are. Without --data: sixty sentences that come with the package."""
    import whence
    from whence.cli.screen import show, split, write
    from whence.data.labelled import opinions, read

    loaded = whence.load(model, task=task, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    result = whence.evaluate(
        loaded,
        read(data) if data is not None else opinions(),
        split(methods),
        split(metrics),
        target=target,  # type: ignore[arg-type]
        protocol=protocol,
        order=order,
        fill=fill,
        special=special,
        limit=limit or (QUICK if quick else None),
        seed=seed,
        truncate=truncate,
        resume=resume,
    )
    write(result, save, column, font)
    show(result)
