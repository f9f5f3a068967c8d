"""The menu names every page once."""

from __future__ import annotations

import tomllib

import pytest

from docs.generate.navigation import NAVIGATION, check, files, toml
from docs.generate.written import written


def test_every_written_page_is_in_the_menu():
    assert set(written()) <= set(files(NAVIGATION))


@pytest.mark.parametrize(
    ("pages", "said"),
    [({"a.md", "b.md"}, "in no menu.*b.md"), (set(), "no such page: a.md")],
)
def test_a_page_too_many_or_too_few_is_an_error(pages, said):
    with pytest.raises(SystemExit, match=said):
        check([("A", [("a", "a.md")])], pages)


def test_a_page_twice_is_an_error():
    with pytest.raises(SystemExit, match=r"twice: a\.md"):
        check([("A", "a.md"), ("B", "a.md")], {"a.md"})


def test_the_menu_as_toml():
    assert tomllib.loads(toml([("A", "a.md"), ('B "b"', [("c", "c.md")])])) == {
        "nav": [{"A": "a.md"}, {'B "b"': [{"c": "c.md"}]}]
    }
