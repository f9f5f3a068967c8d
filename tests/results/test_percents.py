"""Shares as people read them."""

from __future__ import annotations

import re
from pathlib import Path

import whence
from whence.results.percents import percent


def test_shares_are_never_rounded_to_certainty():
    assert [percent(p) for p in (0.5, 0.99999, 0.00001, 0.999999, 0.0)] == [
        "50\xa0%", "99.999\xa0%", "0.001\xa0%", "99.9999\xa0%", "0\xa0%",
    ]  # fmt: skip
    assert percent(1 - 1e-9) == "more than 99.99\xa0%"
    assert percent(1e-9) == "less than 0.01\xa0%"


def test_as_many_digits_as_are_asked_for():
    assert [percent(0.12345, digits) for digits in (0, 1, 2)] == ["12\xa0%", "12.3\xa0%", "12.35\xa0%"]


def test_no_other_way_is_left():
    """Formats such as {share:.1%} leave out the space."""
    root = Path(whence.__file__).parent
    found = [path.name for path in root.rglob("*.py") if re.search(r":[\d>]*\.\d%[}\"]", path.read_text("utf-8"))]
    assert not found
