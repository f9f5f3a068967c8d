"""Explanations in a terminal, and as plain text for pipes."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from whence.results import Explanation


def test_a_token_stays_on_its_line():
    exp = Explanation(scores=np.array([1.0, -1.0]), tokens=("a\n\n", "\tb\x1b[2J"), target="x", method="lrp")
    assert str(exp).splitlines()[1:3] == ["+1.0000\ta⏎⏎", "-1.0000\t→b\ufffd[2J"]


def test_what_stands_between_tokens_is_no_command_to_the_terminal_either():
    text = "a \x1b]0;owned\x07\x9bgem"
    exp = Explanation(scores=np.ones(2), tokens=("a", "gem"), target="x", method="lrp", text=text,
                      offsets=((0, 1), (len(text) - 3, len(text))))  # fmt: skip
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=200)
    console.print(exp)
    shown = console.file.getvalue()
    assert "gem" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_tabs_between_tokens_are_blanks():
    exp = Explanation(scores=np.ones(2), tokens=("a", "gem"), target="x", method="lrp", text="a\tgem",
                      offsets=((0, 1), (2, 5)))  # fmt: skip
    console = Console(file=io.StringIO(), color_system=None, width=200)
    console.print(exp)
    assert "�" not in console.file.getvalue()
