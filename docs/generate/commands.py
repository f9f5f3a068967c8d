"""The command's reference: every command with its arguments and options, from the command itself."""

from __future__ import annotations

from typing import Any

import typer

from whence.cli import app

__all__ = ["commands"]


def commands() -> str:
    """The page."""
    group: Any = typer.main.get_command(app)
    lines = ["# The command", "", "`whence --help` and `whence COMMAND --help` say the same.", ""]
    for name, command in sorted(group.commands.items()):
        if command.hidden:
            continue
        shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
        arguments = " ".join(_named(p) for p in shown if p.param_type_name == "argument")
        lines += [f"## `whence {name}`", "", f"```text\nwhence {name} {arguments} [OPTIONS]\n```", ""]
        lines += [_text(command.help or ""), ""]
        rows = [_row(p) for p in shown]
        if rows:
            lines += ["| | default | |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{_named(parameter)}`"
    else:
        names = ", ".join(f"`{n}`" for n in (*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    bare = default is None or default is False or default == "" or callable(default) or "UNSET" in repr(default).upper()
    shown = "" if bare else f"`{default if not isinstance(default, list | tuple) else ', '.join(map(str, default))}`"
    return f"| {names} | {shown} | {_text(getattr(parameter, 'help', None) or '').replace('|', chr(92) + '|')} |"


def _named(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _text(text: str) -> str:
    return " ".join(text.replace("\b", "").replace("<", "&lt;").split())
