"""Curves and areas of one input, against the metric and a slow loop."""

from __future__ import annotations

import numpy as np
import pytest

import whence
from whence.evaluation.faith import FRACTIONS, agreement, faithfulness
from whence.evaluation.removal import drawn, removals, units

TEXT = "a gorgeous, witty, seductive movie"


@pytest.fixture
def example(sentiment):
    return sentiment.encode([TEXT])[0][0]


def test_it_is_the_metric_for_one_input(sentiment, example):
    exp = whence.explain(sentiment, TEXT)
    found = faithfulness(sentiment, example, sentiment.target("positive"), {"lrp": exp.scores}, fill="unk")
    table = whence.evaluate(sentiment, [(TEXT, "positive")], methods=["lrp"], metrics=["lerf_morf"], progress=False)
    # float32 outputs of batches of other sizes
    assert found["lrp"].area == pytest.approx(table.value("lrp", "lerf_morf"), rel=1e-4)
    assert len(found["lrp"].most) == len(FRACTIONS)


def test_the_opposite_order_has_the_opposite_area(sentiment, example):
    scores = np.arange(11.0)
    found = faithfulness(sentiment, example, sentiment.target("positive"), {"a": scores, "b": -scores})
    assert found["a"].area == pytest.approx(-found["b"].area, abs=1e-5)
    assert found["a"].most == pytest.approx(found["b"].least)


def test_agreement_leaves_special_tokens_out(example):
    scores = np.arange(11.0)
    other = scores.copy()
    other[[0, -1]] = [100.0, -100.0]
    found = agreement(example, {"a": scores, "b": other, "c": np.zeros(11)})
    assert found[0][1] == pytest.approx(1)
    assert np.isnan(found[0][2])


def test_words_go_whole_and_special_tokens_stay(example):
    assert units(example) == [[1], [2, 3], [4, 5], [6, 7, 8], [9]]
    for one in drawn(example, 2, 20, seed=0):
        whole = [unit for unit in units(example) if set(unit) <= set(one)]
        assert len(whole) == 2
        assert sorted(i for unit in whole for i in unit) == one


def test_removals_of_nothing_are_the_input(sentiment, example):
    target = sentiment.target("positive")
    (whole,) = removals(sentiment, example, target, [[]])
    exp = whence.explain(sentiment, TEXT)
    assert whole.score == pytest.approx(exp.target_score, rel=1e-5)
    assert whole.probability == pytest.approx(exp.prediction.probabilities[0], rel=1e-5)
    assert whole.label == "positive"


def test_a_contrast_is_followed_too(sentiment, example):
    target = whence.contrast("positive", "negative")
    whole, less = removals(sentiment, example, target, [[], [2, 3, 4, 5, 6, 7, 8]])
    assert less.score < whole.score
    assert less.probability < whole.probability
