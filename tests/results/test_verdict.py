"""The sentence on top: what is said of which scores."""

from __future__ import annotations

import numpy as np
import pytest

from whence.results import Explanation, Part, Prediction
from whence.results.verdict import verdict

SAID = Prediction(("positive", "negative"), (1.5, 0.0), (0.82, 0.18))
WORDS = ("[CLS]", "superb", ",", "but", "dull", "and", "stale")


def made(scores, target="positive", **more):
    special = tuple(word == "[CLS]" for word in WORDS)
    return Explanation(np.array(scores), WORDS, target, prediction=SAID, special=special, **more)


def test_both_sides_are_named():
    exp = made([0, 2.0, 0, 0.3, -0.9, 0, -0.6])
    assert exp.verdict == (
        "The model says positive (82\xa0%), mainly because of superb; dull and stale pull the other way."
    )
    kinds = {piece.text: piece.kind for piece in verdict(exp)}
    assert (kinds["positive"], kinds["superb"], kinds["dull"]) == ("said", "for", "against")


def test_what_is_small_is_not_named():
    assert made([0, 2.0, 0, 0.9, -0.3, 0, 0]).verdict == "The model says positive (82\xa0%), mainly because of superb."


def test_special_tokens_are_no_reason_and_are_spoken_of_where_they_hold_most():
    told = made([9.0, 2.0, 0, 0, 0, 0, 0]).verdict
    assert "CLS" not in told
    assert told.endswith("82\xa0% of this method's scores lie at special tokens.")


def test_another_target_has_a_sentence_of_its_own():
    told = made([0, -2.0, 0, 0, 0.9, 0, 0], "negative").verdict
    assert told == "The model says positive (82\xa0%). For negative speaks mainly dull; superb speaks against it."


def test_the_prediction_rather_than_another():
    told = made([0, 2.0, 0, 0, 0, 0, 0], "positive rather than negative").verdict
    assert told == "The model says positive (82\xa0%) rather than negative, mainly because of superb."


def test_scores_that_all_speak_against():
    told = made([0, -2.0, 0, 0, 0, 0, 0]).verdict
    assert told == "The model says positive (82\xa0%), although little speaks for it; superb pulls the other way."
    told = made([0, -2.0, 0, 0, 0, 0, 0], "negative").verdict
    assert told.endswith("For negative speaks little; against it superb speaks.")


def test_a_method_that_does_not_look_at_the_target_claims_nothing_about_it():
    told = made([0, 2.0, 0, 0, 0, 0, 0], class_specific=False).verdict
    assert told == "The model says positive (82\xa0%). superb stands out, whatever the target."


@pytest.mark.parametrize("scores", [[0.0] * 7, [float("nan")] * 7])
def test_nothing_is_made_up_where_there_are_no_scores(scores):
    assert made(scores).verdict == "The model says positive (82\xa0%); this method names no reason."


def test_words_are_joined_and_read_without_punctuation():
    exp = Explanation(
        np.array([1.0, 1.0, 0.1]), ("wit", "ty,", "film"), "positive", prediction=SAID, word_ids=(0, 0, 1)
    )
    assert "because of witty." in exp.verdict


def test_a_picture_has_places_and_a_sound_has_moments():
    scores = np.zeros((6, 6))
    scores[0:2, 4:6] = 1.0
    assert Explanation(scores, target="7", prediction=Prediction(("7",))).verdict == (
        "The model says 7, mainly because of the top right."
    )
    part = Part("input_values", "frame", shape=(20,), seconds=0.05)
    sound = Explanation(np.eye(20)[10], target="trill", prediction=Prediction(("trill",)), parts=(part,))
    assert sound.verdict == "The model says trill, mainly because of 0.50–0.60 s."


def test_without_a_prediction_the_target_is_spoken_of():
    assert Explanation(np.array([1.0]), ("gem",), "score").verdict == "For score speaks mainly gem."


def test_many_reasons_that_are_equally_strong_are_none():
    even = made([0, 2.0, 1.9, 1.8, 1.9, 2.0, 1.9]).verdict
    assert even == "The model says positive (82\xa0%); by this method no part of it stands out."
    assert made([0, 2.0, 1.9, 1.8, 1.9, 2.0, 1.9], "negative").verdict == (
        "The model says positive (82\xa0%). For negative no part stands out by this method."
    )
    assert "because of gem and fine" in Explanation(np.array([1.0, 1.0]), ("gem", "fine"), prediction=SAID).verdict


def test_a_mark_alone_is_quoted():
    assert "because of “,”." in made([0, 0, 2.0, 0, 0, 0, 0]).verdict


def test_beside_a_text_places_are_those_of_the_picture():
    parts = (Part("input_ids", "token", shape=(1,)), Part("pixel_values", "patch", shape=(3, 3)))
    scores = np.array([0.1, *([0.0] * 8), 2.0])
    exp = Explanation(scores, ("what", *(f"[{n}]" for n in range(9))), "7", parts=parts, prediction=Prediction(("7",)))
    assert exp.verdict == "The model says 7, mainly because of the bottom right of the picture."
