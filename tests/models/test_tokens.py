"""Names of tokens: what was written, never what the vocabulary lacks."""

from __future__ import annotations

import numpy as np
import pytest

import whence
from tests import small


@pytest.fixture
def model():
    return whence.load((small.classifier(), small.wordpiece()))


@pytest.mark.parametrize("method", ["lrp", "occlusion", "integrated_gradients", "shap", "gae"])
def test_unknown_characters_are_features(model, method):
    """An emoji is a token like any other: not special, not without a score, and shown as it was written."""
    exp = whence.explain(model, "a good 🍕 movie", method)
    assert exp.tokens == ("[CLS]", "a", "good", "🍕", "movie", "[SEP]")
    assert exp.special == (True, False, False, False, False, True)
    assert exp.scores[3] != 0


def test_a_text_of_unknown_characters_is_not_empty(model):
    exp = whence.explain(model, "我爱北京", special_tokens=False)
    assert exp.tokens == ("我", "爱", "北", "京")
    assert np.all(exp.scores != 0)


def test_words_are_shown_as_they_were_written(model):
    exp = whence.explain(model, "Good NAÏVE movie")
    assert "".join(exp.tokens[1:-1]) == "GoodNAÏVEmovie"
    assert [word.text for word in exp.words()][1:-1] == ["Good", "NAÏVE", "movie"]


def test_lists_of_words_keep_their_names_and_sums(model):
    exp = whence.explain(model, [["a", "goodish", "movie"]])[0]
    words = {word.text: word.score for word in exp.words()}
    assert list(words)[1:-1] == ["a", "goodish", "movie"]
    pieces = [i for i, w in enumerate(exp.word_ids) if w == 1]
    assert len(pieces) > 1
    assert words["goodish"] == pytest.approx(float(exp.scores[pieces].sum()), abs=1e-6)


def test_pairs_count_words_on_each_side(model):
    exp = whence.explain(model, ("a movie", "a plot"))
    assert [word.text for word in exp.words()] == ["[CLS]", "a", "movie", "[SEP]", "a", "plot", "[SEP]"]
