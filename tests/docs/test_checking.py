"""A built site is searched for dead links."""

from __future__ import annotations

import pytest

from docs.generate.checking import faults


@pytest.fixture
def site(tmp_path):
    (tmp_path / "there.html").write_text('<h1 id="top">there</h1>')
    (tmp_path / "x.svg").write_text("<svg/>")
    return tmp_path


def test_a_sound_site_has_none(site):
    (site / "index.html").write_text(
        '<a href="there.html#top">a</a><img src="x.svg"><a href="https://example.org">b</a>'
    )
    assert faults(site) == []


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ('<a href="nowhere.html">a</a>', "no such file: nowhere.html"),
        ('<a href="there.html#bottom">a</a>', "no such place: there.html#bottom"),
        ('<img src="y.svg">', "no such file: y.svg"),
        ('<script src="https://example.org/a.js"></script>', "loaded from elsewhere: https://example.org/a.js"),
    ],
)
def test_a_fault_is_named_with_its_page(site, html, said):
    (site / "index.html").write_text(html)
    assert faults(site) == [f"index.html: {said}"]
