"""Results on the screen: in colour for people, plain when piped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from whence.errors import InputError

__all__ = ["show", "split", "write"]


def split(names: str) -> list[str]:
    """Comma-separated names."""
    return [name.strip() for name in names.split(",") if name.strip()]


def write(result: Any, path: Path | None, column: str | None = None, font: str | None = None) -> None:
    """Save what was asked to be saved, and say so on standard error."""
    if path is not None:
        typer.echo(f"wrote {result.save(path, column=column, font=font)}", err=True)
    elif column is not None or font is not None:
        raise InputError("--column and --font are of a figure that is saved: add --save figure.pdf")


def show(result: Any) -> None:
    from rich.console import Console

    console = Console(soft_wrap=True)
    if console.is_terminal:
        console.print(result)
    else:
        typer.echo(str(result))
