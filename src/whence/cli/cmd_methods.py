"""`whence methods`."""

from __future__ import annotations

from typing import Annotated

import typer

from whence.cli.command import app

__all__ = ["list_methods"]


@app.command("methods")
def list_methods(
    markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/methods.md.")] = False,
) -> None:
    """List every method with what it computes."""
    from whence.methods import listing as catalogue

    if markdown:
        typer.echo(catalogue.markdown())
        return
    for name, summary in catalogue.lines():
        typer.echo(f"{name:<24} {summary}")
