"""Finished answers: the right words as a sentence."""

from __future__ import annotations

from benchmarks.language.answers import finished
from benchmarks.language.questions import spelled


def test_the_right_words_are_a_sentence():
    assert [finished(words) for words in ("west", "Cork City.", "1964")] == ["West.", "Cork City.", "1964."]


def test_words_are_found_as_they_arespelled():
    assert spelled("combustion", "It speeds up Combustion.") == "Combustion"
