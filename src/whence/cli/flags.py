"""What errors of the library say to type in Python, as it is typed at the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from typer.main import get_command

from whence.cli.command import app

__all__ = ["as_flags"]

CALL = r"\w\((?:[^()]|\([^()]*\))*\)"
OPTION = re.compile(CALL + r"|(?<![\w.-])([a-z_]+)=(True\b|N\b|\d+\b|'[^']*'|(?=[\s.,;)]|$))")
"""name=value of a value that is typed alike at the command line, or name= alone; calls are Python, and stay so."""


def as_flags(said: str, arguments: Sequence[str]) -> str:
    """The same words with the flags of the command that was typed, where it has them.

    >>> as_flags("Pass truncate=True, or seed=3, or type explain(text, truncate=True)", ["explain", "a gem"])
    'Pass --truncate, or seed=3, or type explain(text, truncate=True)'
    """
    flags = _flags(arguments)

    def typed(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name not in flags:
            return found.group()
        return flags[name] if value in ("", "True") else f"{flags[name]} {value}"

    return OPTION.sub(typed, said)


def _flags(arguments: Sequence[str]) -> dict[str, str]:
    """The flags of a command by the names of its options."""
    commands = getattr(get_command(app), "commands", {})
    command = next((commands[one] for one in arguments if one in commands), None)
    given = {p.name: p.opts[0] for p in getattr(command, "params", ()) if p.opts[0].startswith("--")}
    return {name: flag for name, flag in given.items() if name is not None}
