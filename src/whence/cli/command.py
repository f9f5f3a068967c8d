"""The application that commands register with, and the options they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from whence.options import whole_number
from whence.stamp import versions

__all__ = [
    "Column",
    "Data",
    "Device",
    "Dtype",
    "Font",
    "Model",
    "Remote",
    "Target",
    "Task",
    "Truncate",
    "app",
    "target_of",
]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(" ".join(f"{package} {version}" for package, version in versions().items()))
        raise typer.Exit


@app.callback()
def whence(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Versions of whence and its engine.")
    ] = False,
) -> None:
    """From what place did this prediction come? Explain the predictions of transformers."""


Model = Annotated[
    str, typer.Option("--model", "-m", help="Bundled name (sentiment, digits, tones, shapes), hub id, folder.")
]
Target = Annotated[
    str | None, typer.Option("--target", "-t", help="Label, class number, or 'A|B' for A rather than B.")
]
Task = Annotated[str | None, typer.Option(help="What the model does, if its name does not say.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, …")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16, float16.")]
Data = Annotated[
    Path | None,
    typer.Option(help=".tsv (label TAB text), .csv or .jsonl with text and label, or a text per line; also .gz."),
]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut inputs that are too long.")]
Column = Annotated[
    str | None, typer.Option("--column", help="Save the figure for a paper: single (3.25 in wide) or double (6.75).")
]
Font = Annotated[str | None, typer.Option("--font", help="Of a saved figure: sans or serif.")]
Remote = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]


def target_of(text: str | None, *, written: bool = False) -> Any:
    """What was typed as --target: a number, a label, or a contrast; where something is written, a part of that."""
    if text is None:
        return None
    import whence

    if written and "|" not in text:
        return whence.span(text)

    if "|" in text:
        this, that = text.split("|", 1)
        return whence.contrast(_number(this), _number(that))
    return _number(text)


def _number(text: str) -> int | str:
    number = whole_number(text)
    return text if number is None else number
