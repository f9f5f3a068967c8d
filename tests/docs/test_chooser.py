"""What is recommended follows from what was measured."""

from __future__ import annotations

import pytest

from docs.generate import chooser
from docs.generate.measured import MEASURES, measured
from docs.generate.method_pages import best
from whence.methods import methods


@pytest.fixture
def question():
    return chooser.Question("Which?", "auac", "results.md")


def test_the_best_and_what_is_level_with_it_the_fastest_first(question, monkeypatch):
    monkeypatch.setattr(chooser, "_time", {"gi": 2.0, "shap": 90.0, "lrp": 1.0}.__getitem__)
    row = chooser._answer(question, {"random": 0.99, "gi": 0.5, "shap": 0.801, "lrp": 0.8, "no method of ours": 0.9})
    assert "[`lrp`](methods/lrp.md) 0.800, [`shap`](methods/shap.md) 0.801; `random` 0.990 | 1.0 to 90.0" in row
    assert "gi" not in row
    assert "no method" not in row


def test_a_question_asks_only_those_who_can_answer(monkeypatch):
    monkeypatch.setattr(chooser, "_time", lambda name: 1.0)
    forward = next(q for q in chooser.QUESTIONS if "gradients" in q.asks)
    row = chooser._answer(forward, {"random": 0.1, "exact": 0.9, "occlusion": 0.5, "gae": 0.8})
    assert "`occlusion`" in row
    assert "`exact`" not in row
    assert "`gae`" not in row


def test_low_is_good_where_a_measure_says_so():
    assert best({"random": 0.1, "gi": 3.0, "lrp": 1.0}, low=True) == "lrp"
    assert best({"random": 9.0, "gi": 3.0, "lrp": 1.0}, low=False) == "gi"


def test_result_files_have_every_measure_and_a_control():
    values = measured()
    assert set(values) == {m.name for m in MEASURES}
    for found in values.values():
        assert {"random", "exact", "gae"} <= set(found)
        assert len(set(found) & set(methods)) > 8


def test_the_page_has_a_row_for_each_question_and_method():
    page = chooser.chooser()
    assert all(f"| [{question.asks}]" in page for question in chooser.QUESTIONS)
    table = page.split("## Everything that was measured")[1]
    assert all(f"| [`{name}`](methods/{name}.md) |" in table for name in methods if name != "lrp")
