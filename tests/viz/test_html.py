"""Fragments for notebooks, and terminals: nothing in a token is obeyed."""

from __future__ import annotations

import io
from dataclasses import replace
from xml.etree import ElementTree

from rich.console import Console

from tests.viz.made import explanation
from whence.results import Comparison
from whence.results.showing import draw

SCRIPT = "<script>alert(1)</script> & co"


def test_tokens_are_shown_not_run():
    for result in (explanation(SCRIPT), Comparison((explanation(SCRIPT), explanation(SCRIPT, method="<i>")))):
        html = draw(result, "notebook")
        assert "<script" not in html
        assert "<i>" not in html
        assert SCRIPT.replace(" & ", "&") in "".join(ElementTree.fromstring(html).itertext()).replace(" & ", "&")


def test_colours_and_paper_are_written_out():
    html = draw(explanation("good dull so", [2.0, -2.0, 0.0]), "notebook")
    assert "background:rgb(230,97,1)" in html
    assert "background:rgb(33,102,172);color:#ffffff" in html
    assert "background:#fff;" in html, "white paper in dark notebooks"
    assert "so</span>" in html
    assert 'title="+0">so' in html, "zero has no colour but a number"


def test_right_to_left_text_runs_to_the_left():
    assert 'dir="rtl"' in draw(explanation("שלום עולם"), "notebook")
    assert 'dir="ltr"' in draw(explanation("hello"), "notebook")


def test_long_inputs_share_a_style_sheet():
    html = draw(explanation("gem " * 1000, [1.0] * 1000), "notebook")
    assert html.count("background:rgb") == 64
    assert html.count("class=whence-f32") == 1000


def test_a_terminal_does_not_obey_tokens():
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(explanation("a \x1b[2Jgem"))
    assert "\x1b" not in console.file.getvalue()
    console.print(replace(explanation("a gem"), target="\x1b[2J rather than \x1c"))
    assert not {"\x1b", "\x1c"} & set(console.file.getvalue())


def test_lines_of_the_text_stay_lines_in_a_terminal():
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(explanation("one\ntwo"))
    assert "one\ntwo" in console.file.getvalue()
