"""`whence diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from whence.cli.command import Column, Device, Dtype, Font, Model, Task, app
from whence.cli.screen import write
from whence.errors import InputError

__all__ = ["diagnose"]

KINDS = (".html", ".json", ".md", ".tex", ".svg", ".pdf", ".png")


@app.command()
def diagnose(
    model: Model = "sentiment",
    data: Annotated[
        Path | None, typer.Option("--data", help="Texts, one per line, or label<TAB>text. Default: 40 of our own.")
    ] = None,
    sections: Annotated[
        str, typer.Option(help="Comma-separated: agreement, counterfactual, adversarial, guided.")
    ] = "agreement,counterfactual,adversarial,guided",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer examples, shuffles and steps: under a minute.")] = False,
    limit: Annotated[int | None, typer.Option(help="At most this many examples.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the adversary.")] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut texts that are too long.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write to a file: .html .json .md .tex .svg .pdf .png")] = None,
    column: Column = None,
    font: Font = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Is attention an explanation of this model? Four questions, with numbers and how to read them."""
    from rich.console import Console

    import whence
    from whence.data.labelled import film_sentences, read
    from whence.diagnostics.question import questions
    from whence.verbs.diagnose import QUICK

    if save is not None and save.suffix.lower() not in KINDS:  # before minutes of work
        raise InputError(f"can't write a diagnosis as {save.suffix!r}: use {' '.join(KINDS)}")
    names = [name.strip() for name in sections.split(",") if name.strip()]
    chosen: list[Any] = [QUICK[name] if quick and name in QUICK else questions[name]() for name in names]
    inputs: Any = film_sentences() if data is None else read(data)
    loaded = whence.load(model, task=task, device=device, dtype=dtype)
    if limit is None:
        limit = 24 if quick else 40
    found = whence.diagnose(loaded, inputs, sections=chosen, limit=limit, seed=seed, steps=steps, truncate=truncate)
    write(found, save, column, font)
    console = Console(soft_wrap=not Console().is_terminal)
    console.print(found) if console.is_terminal else typer.echo(str(found))
