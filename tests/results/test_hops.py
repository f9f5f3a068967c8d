"""Hops end, and know what each row passes on."""

from __future__ import annotations

import numpy as np
import pytest

from whence.errors import InputError
from whence.results import Explanation, Prediction, Trace


def test_all_hops_are_as_many_as_there_are_rows_at_most():
    """Rows that came from each other, which no model writes, pass the same amount round and round."""
    whole = Explanation(np.array([2.0, 2.0]), tokens=("a", "b"), target="ab", target_score=4.0)
    trace = Trace(np.array([[0.0, 2.0], [2.0, 0.0]]), whole, ("a", "b"), ((0, 1), (1, 2)), target_scores=(2.0, 2.0))
    made = trace.span(0, 1, hops="all")
    assert made.options["hops"] == 2
    assert made.scores.sum() == 2.0


def test_rows_that_share_a_column_pass_nothing_on():
    """Each of them would pass on what lies at all of them."""
    whole = Explanation(np.array([3.0, 2.0, 1.0]), tokens=("ask", " I", " go"), sides=("p", "c", "c"))
    trace = Trace(
        np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]), whole, (" I", " go", "."),
        ((1, 2), (2, 3), (3, 3)), target_scores=(1.0, 2.0, 3.0),
    )  # fmt: skip
    wanted = trace.span(2, hops=1)
    assert wanted.scores.tolist() == [2.5, 0.5, 0.0]
    with pytest.raises(InputError, match="share a column"):
        trace.by("sentence").span(2, hops=1)
    same = trace.by("sentence", rows="sentence")
    assert same.places == ((1, 2),)
    assert same.span(hops=1).scores.sum() == 6.0
    assert wanted.by("sentence").scores.tolist() == [2.5, 0.5]


def test_a_sentence_that_came_from_its_own_words_is_passed_on_until_little_is_left():
    """A tenth of what it holds lies at itself: after n hops 10⁻ⁿ⁻¹ of it, and two are needed for less than 1 %."""
    whole = Explanation(np.array([9.0, 0.5, 0.5]), tokens=("ask", " I", " go"), target_score=10.0)
    trace = Trace(np.array([[9.0, 0.5, 0.5]]), whole, (" I go.",), ((1, 3),), target_scores=(10.0,))
    made = trace.span(hops="all")
    assert made.options["hops"] == 2
    np.testing.assert_allclose(made.scores, [9.99, 0.005, 0.005], atol=1e-6)


def test_a_prediction_is_of_the_first_token_alone():
    whole = Explanation(np.array([2.0, 2.0]), tokens=("a", "b"), target="ab", prediction=Prediction(("a",), (1.0,)))
    trace = Trace(np.array([[0.0, 2.0], [2.0, 0.0]]), whole, ("a", "b"), ((0, 1), (1, 2)), target_scores=(2.0, 2.0))
    assert trace.span(0, 2).prediction.label == "a"
    assert not trace.span(1, 2).prediction.labels
