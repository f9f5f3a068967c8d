"""The order of pieces on a line, by hand."""

from __future__ import annotations

import pytest

from whence.viz.bidi import base_direction, levels, mirrored, visual_order

SHALOM, OLAM = "שלום", "עולם"


@pytest.mark.parametrize(
    ("text", "base"),
    [("hello שלום", "ltr"), ("שלום hello", "rtl"), ("« مرحبا", "rtl"), ("123 שלום", "rtl"), ("…", "ltr")],
)
def test_a_paragraph_runs_as_its_first_letter(text, base):
    assert base_direction(text) == base


def test_levels_by_hand():
    assert levels(["the", " ", SHALOM, " ", OLAM, "."], "ltr") == [0, 0, 1, 1, 1, 0]
    assert levels([SHALOM, " ", "BERT", " ", "3", " ", OLAM], "rtl") == [1, 1, 2, 2, 2, 1, 1]


def test_visual_order_by_hand():
    assert visual_order([0, 0, 0]) == [0, 1, 2]
    assert visual_order([1, 1, 1]) == [2, 1, 0]
    assert visual_order([0, 1, 1, 0]) == [0, 2, 1, 3]
    assert visual_order([1, 2, 2, 1]) == [3, 1, 2, 0]
    assert visual_order([]) == []


def test_brackets_turn_round():
    assert mirrored("(a]") == ")a["
