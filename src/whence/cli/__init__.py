"""The command `whence`. One file for each subcommand; importing it registers it."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from whence.cli import (
    cmd_audit,
    cmd_cite,
    cmd_compare,
    cmd_diagnose,
    cmd_evaluate,
    cmd_explain,
    cmd_graph,
    cmd_methods,
    cmd_patch,
    cmd_run,
    cmd_serve,
    cmd_similarity,
    cmd_tcav,
    cmd_tune,
)
from whence.cli.command import app
from whence.cli.flags import as_flags
from whence.errors import WhenceError

__all__ = [
    "app",
    "cmd_audit",
    "cmd_cite",
    "cmd_compare",
    "cmd_diagnose",
    "cmd_evaluate",
    "cmd_explain",
    "cmd_graph",
    "cmd_methods",
    "cmd_patch",
    "cmd_run",
    "cmd_serve",
    "cmd_similarity",
    "cmd_tcav",
    "cmd_tune",
    "main",
]


def main() -> None:
    """Run the command; errors made for people, and those of files, are shown as one line, without a traceback."""
    try:
        app()
    except WhenceError as error:
        _refuse(as_flags(str(error), sys.argv[1:]))
    except OSError as error:  # a folder that may not be written, a disk that is full
        named = "" if error.filename is None else f"{str(error.filename)!r}: "
        _refuse(f"{named}{error.strerror or str(error) or type(error).__name__}")


def _refuse(reason: str) -> NoReturn:
    from whence.data.rows import writable
    from whence.viz.terminal import printable

    said = printable(writable(reason), keep="\n")  # what an input holds is no command to the terminal
    typer.secho(f"whence: {said}", err=True, fg=typer.colors.RED)
    raise SystemExit(2)
