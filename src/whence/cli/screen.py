"""Results on the screen: in colour for people, plain when piped."""

from __future__ import annotations

from typing import Any

import typer

__all__ = ["show", "split"]


def split(names: str) -> list[str]:
    """Comma-separated names."""
    return [name.strip() for name in names.split(",") if name.strip()]


def show(result: Any) -> None:
    from rich.console import Console

    console = Console(soft_wrap=True)
    if console.is_terminal:
        console.print(result)
    else:
        typer.echo(str(result))
