"""`whence tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.command import Column, Data, Device, Dtype, Font, Model, Remote, Task, Truncate, app

__all__ = ["tune"]


@app.command()
def tune(
    model: Model = "sentiment",
    data: Data = None,
    metric: Annotated[str, typer.Option(help="What to search by.")] = "auac",
    calibration: Annotated[int | None, typer.Option(help="Examples to search on.")] = None,
    held_out: Annotated[int | None, typer.Option(help="Examples to report on.")] = None,
    budget: Annotated[int, typer.Option(help="How many recipes may be tried.")] = 40,
    name: Annotated[str, typer.Option(help="The recipe's name.")] = "tuned",
    target: Annotated[str, typer.Option(help="Explain the 'predicted' class or the 'true' label.")] = "predicted",
    seed: Annotated[int, typer.Option(help="Of the draw and the search.")] = 0,
    truncate: Truncate = False,
    save: Annotated[Path | None, typer.Option(help="Write the recipe (.json) or the report (.html .tex …).")] = None,
    column: Column = None,
    font: Font = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """Search for the recipe that is most faithful on your model; use it with --method FILE.json."""
    import whence
    from whence.cli.screen import show, write
    from whence.data.labelled import opinions, read

    loaded = whence.load(model, task=task, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    result = whence.tune(
        loaded,
        read(data) if data is not None else opinions(),
        metric=metric,
        calibration=calibration,
        held_out=held_out,
        budget=budget,
        name=name,
        target=target,  # type: ignore[arg-type]
        seed=seed,
        truncate=truncate,
    )
    write(result, save, column, font)
    show(result)
