"""The command `whence`. One file for each subcommand; importing it registers it."""

from __future__ import annotations

import typer

from whence.cli import audit, compare, diagnose, evaluate, explain, methods, run, serve, tcav, tune
from whence.cli.app import app
from whence.errors import WhenceError

__all__ = [
    "app",
    "audit",
    "compare",
    "diagnose",
    "evaluate",
    "explain",
    "main",
    "methods",
    "run",
    "serve",
    "tcav",
    "tune",
]


def main() -> None:
    """Run the command; errors made for people are shown as one line, without a traceback."""
    try:
        app()
    except WhenceError as error:
        typer.secho(f"whence: {error}", err=True, fg=typer.colors.RED)
        raise SystemExit(2) from None
