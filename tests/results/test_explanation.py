"""Results: frozen, exact, safe to show."""

from __future__ import annotations

import dataclasses
import html

import numpy as np
import pytest

from whence.errors import InputError
from whence.results import Conservation, Explanation


@pytest.fixture
def exp():
    return Explanation(
        scores=np.array([0.5, -1.0, 0.25]),
        tokens=("<script>", "al", "ert"),
        offsets=((0, 8), (9, 11), (11, 14)),
        word_ids=(0, 1, 1),
        special=(False, False, False),
        text="<script> alert",
        target="positive",
        target_score=1.0,
        method="lrp",
        conservation=Conservation(inputs=-0.25, target=1.0, sinks={"bias": 1.2, "unruled": 0.04}, unruled=("i0",)),
    )


def test_frozen(exp):
    with pytest.raises(dataclasses.FrozenInstanceError):
        exp.target = "x"
    with pytest.raises(ValueError, match="read-only"):
        exp.scores[0] = 1


def test_receipt_by_hand(exp):
    receipt = exp.conservation
    assert receipt.total == pytest.approx(0.95)
    assert receipt.error == pytest.approx(0.05)  # amounts at functions without a rule are not vouched for
    assert "i0" in str(receipt)


def test_words_and_top_by_hand(exp):
    assert [(w.text, w.score) for w in exp.words()] == [("<script>", 0.5), ("alert", -0.75)]
    assert exp.words("max")[1].score == -1.0
    assert exp.top(2) == [("<script>", 0.5), ("ert", 0.25)]


def test_html_escapes(exp, tmp_path):
    page = exp.save(tmp_path / "x.html").read_text()
    harmless = dataclasses.replace(exp, tokens=tuple(t.replace("<script>", "x") for t in exp.tokens))
    own = harmless.save(tmp_path / "y.html").read_text().count("<script>")
    assert page.count("<script>") == own  # the page has scripts of its own, and no other
    assert "&lt;script&gt;" in page
    assert "<script>" not in exp._repr_html_()


def test_a_notebook_begins_with_the_verdict(exp):
    shown = exp._repr_html_()
    assert shown.index(html.escape(exp.verdict)) < shown.index("method: ")


def test_a_failed_save_leaves_the_old_file(exp, tmp_path):
    path = tmp_path / "x.json"
    exp.save(path)
    before = path.read_text()
    broken = dataclasses.replace(exp, options={"x": float("nan")}, stamp={1: object})
    with pytest.raises(Exception):  # noqa: B017
        broken.save(tmp_path / "x.unknown")
    assert path.read_text() == before
    with pytest.raises(InputError, match=r"\.json or \.npz"):
        Explanation.load(tmp_path / "x.html")


def test_tokens_and_scores_must_match():
    with pytest.raises(ValueError, match="2 tokens but 3 scores"):
        Explanation(scores=np.zeros(3), tokens=("a", "b"))


def test_plain_and_rich(exp):
    from rich.console import Console

    assert "+0.5000\t<script>" in str(exp)
    console = Console(record=True, width=200, force_terminal=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(exp)
    assert "<script> alert" in console.export_text()


def test_what_is_left_out_adds_up(exp):
    """Twice something taken away: the sum of both is on record, and with what is left it is what there was."""
    marked = dataclasses.replace(exp, special=(False, True, False), word_ids=(), offsets=())
    once = marked.without_first()
    twice = once.without_special()
    assert once.left_out == pytest.approx(0.5)
    assert twice.left_out == pytest.approx(0.5 - 1.0)
    assert twice.tokens == ("ert",)
    assert float(twice.scores.sum()) + twice.left_out == pytest.approx(float(exp.scores.sum()))
