"""A list of results: a list in all that it does, and shown and saved as one."""

from __future__ import annotations

import pickle

import pytest

from tests.viz import made
from whence.errors import InputError
from whence.results import Explanation, Several
from whence.results.showing import draw

ONE, TWO = made.explanation("a <b> gem"), made.explanation("so dull")


def test_it_is_a_list():
    found = Several([ONE, None, TWO])
    assert found == [ONE, None, TWO]
    assert isinstance(found[1:], Several)
    assert found[2] is TWO
    assert [*found] == list(found)
    assert len(pickle.loads(pickle.dumps(found))) == 3


def test_notebooks_and_terminals_show_each_and_count_the_rest():
    many = Several([ONE] * 25)
    assert many._repr_html_().count("method: lrp") == 20
    assert "and 5 more" in many._repr_html_()
    assert Several([None])._repr_html_() == "<div><div>None</div></div>"


def test_a_page_has_a_row_for_each_and_says_what_is_missing():
    page = draw(Several([ONE, None, TWO]), "html")
    assert page.count("<tr><td") == 2
    assert "1 could not be explained." in page
    assert "<b>" not in page.split("<tbody>")[1].split("</tbody>")[0]


def test_saved_exactly(tmp_path):
    read = Several.load(Several([ONE, None, TWO]).save(tmp_path / "all.json"))
    assert [one and one.text for one in read] == ["a <b> gem", None, "so dull"]
    assert (read[2].scores == TWO.scores).all()


def test_other_files_are_told_apart(tmp_path):
    with pytest.raises(InputError, match=r"Explanation\.load"):
        Several.load(ONE.save(tmp_path / "one.json"))
    with pytest.raises(InputError, match="one by one"):
        Several([made.trace()]).save(tmp_path / "x.html")
    assert isinstance(Explanation.load(tmp_path / "one.json"), Explanation)
