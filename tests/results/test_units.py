"""Units that people think in."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import whence
from tests import small
from whence.results import Explanation, Part
from whence.results.units import sentences, tokens_reading

LONG = 300_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("It rained. We left.", ["It rained. ", "We left."]),
        ("Dr. Who met J. Smith, e.g. at 3.5 km. Then?", ["Dr. Who met J. Smith, e.g. at 3.5 km. ", "Then?"]),
        ('He said "Go!" Then he went.', ['He said "Go!" ', "Then he went."]),
        ("a line\nthat goes on\nAnother", ["a line\nthat goes on\n", "Another"]),
        ("Title\n\nthe text", ["Title\n\n", "the text"]),
        ("雨が降った。帰った。", ["雨が降った。", "帰った。"]),
        ("no end", ["no end"]),
        ("  \n ", ["  \n "]),
        ("One...  Two", ["One...  ", "Two"]),
        ("", [""]),
    ],
)
def test_sentences(text, wanted):
    assert [text[a:b] for a, b in sentences(text)] == wanted


def explained(text="A gem. Not dull at all!", **options):
    return whence.explain((small.classifier(), small.wordpiece()), text, **options)


@pytest.mark.parametrize("unit", ["word", "sentence", ["gem", "dull at"], {"praise": (0, 6)}])
def test_sums_are_exact(unit):
    whole = explained()
    merged = whole.by(unit)
    assert len(merged) < len(whole)
    assert merged.scores.sum() == pytest.approx(whole.scores.sum(), abs=1e-5)
    assert explained(by=unit).scores.tolist() == merged.scores.tolist()
    assert merged.conservation == whole.conservation
    assert merged.parts[0].count == len(merged)


def test_sentences_of_a_text():
    whole = explained()
    merged = whole.by("sentence")
    assert merged.tokens == ("[CLS]", "A gem.", "Not dull at all!", "[SEP]")
    assert merged.special == (True, False, False, True)
    assert merged.scores[1] == pytest.approx(whole.scores[1:6].sum(), abs=1e-6)
    assert [merged.text[a:b].strip() for a, b in merged.offsets[1:3]] == ["A gem.", "Not dull at all!"]


def test_stretches_of_ones_own():
    merged = explained().by({"praise": "gem", "rest": (7, 23)})
    assert merged.tokens == ("[CLS]", "A", "praise", ".", "rest", "[SEP]")
    with pytest.raises(whence.WhenceError, match="'gems' does not stand in the text"):
        explained().by(["gems"])
    with pytest.raises(whence.WhenceError, match="overlap in"):
        explained().by([(0, 5), (4, 8)])
    with pytest.raises(whence.WhenceError, match="no stretch"):
        explained().by([(5, 5)])
    with pytest.raises(whence.WhenceError, match=r"sentense.*sentence"):
        explained().by("sentense")
    with pytest.raises(whence.WhenceError, match="which message"):
        explained().by("message")


def test_tokens_whose_places_nobody_knows_are_the_text():
    exp = Explanation(np.array([1.0, 2.0, 4.0]), tokens=("Yes", ".", " No"))
    assert exp.by("sentence").scores.tolist() == [3.0, 4.0]


def test_units_do_not_cross_inputs():
    exp = Explanation(np.arange(4.0), tokens=("a", "b", "c", "d"), parts=(Part("x", shape=(2,)), Part("y", shape=(2,))))
    merged = exp.by("sentence")
    assert merged.tokens == ("ab", "cd")
    assert [part.shape for part in merged.parts] == [(1,), (1,)]
    assert merged.part("y").tolist() == [5.0]


@pytest.mark.parametrize("by", [5, None, 2.5, "chapter"])
def test_what_is_no_unit(by):
    with pytest.raises(whence.WhenceError, match="Known: document, message"):
        Explanation(np.ones(2), tokens=("a", "b")).by(by)


def test_pictures_have_no_words():
    with pytest.raises(whence.WhenceError, match="no text"):
        Explanation(np.ones((2, 2))).by("word")


def test_words_that_were_written():
    assert tokens_reading("b c", ["a", " b", " c", "d"]) == range(1, 3)
    with pytest.raises(whence.WhenceError, match="'x' was not written"):
        tokens_reading("x", ["a"])


def test_tokens_without_text_are_a_part_of_the_character_before_them():
    tokens = ("It", " is", " 中", "", "", "文", "", "。", "", "Not", ".")
    exp = Explanation(np.arange(11.0), tokens=tokens)
    assert exp.by("sentence").tokens == ("It is 中文。", "Not.")
    assert exp.by("sentence").scores.tolist() == [36.0, 19.0]
    assert exp.by(["文"]).scores.tolist() == [0, 1, 2, 3, 4, 11, 7, 8, 9, 10]
    assert tokens_reading("中文", tokens) == range(2, 7)
    assert tokens_reading(".", tokens) == range(10, 11)


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="this system has no alarm")
@pytest.mark.parametrize("text", ["." * LONG + "x", "?!" * LONG + "x", '."' * LONG, "\n " * LONG, "x" + "\n " * LONG])
def test_no_mark_is_looked_at_again_and_again(text):
    """At every mark, a pattern went to the end of all marks and back: for minutes, and this takes milliseconds."""
    signal.alarm(60)
    try:
        assert len(sentences(text)) == 1
    finally:
        signal.alarm(0)
