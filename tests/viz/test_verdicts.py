"""What came out, in one sentence: it says the number, and a tie is called a tie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.viz import made
from whence.results.conservation import Conservation
from whence.results.evaluation_files import grid
from whence.results.measured import Measured, Measurement
from whence.viz.verdicts import verdict

REPORTED = (
    "audit", "citations", "evaluation", "graph", "inside", "maps", "pair", "patching", "tcav", "trace", "tuning",
)  # fmt: skip


def measured(*values: float) -> Measured:
    return Measured.of([Measurement((v,), (1.0,)) for v in values])


def evaluation(better: str = "higher", **held: Measured):
    given = {(name, "f1"): values for name, values in held.items()}
    size = len(next(iter(held.values())).numerators)
    return replace(
        made.evaluation(), methods=tuple(held), metrics=("f1",), measured=given, better={"f1": better}, axes={},
        inputs=tuple(map(str, range(size))), resamples=500,
    )  # fmt: skip


# paired: b is always a little below a, though their intervals overlap widely
SURE = evaluation(a=measured(0.1, 0.5, 0.9, 0.3, 0.7, 0.2), b=measured(0.05, 0.45, 0.85, 0.25, 0.65, 0.15))
TIED = evaluation(a=measured(0.1, 0.5, 0.9, 0.3), b=measured(0.2, 0.4, 0.8, 0.35))


def test_a_star_needs_a_difference_whose_interval_leaves_out_zero():
    assert SURE.leaders("f1") == ("a",)
    assert [row[1].endswith((" *", " =")) for row in grid(SURE)] == [True, False]
    assert grid(SURE)[0][1].endswith(" *")
    assert verdict(SURE) == "a is best by f1, on 6 examples."


def test_a_tie_is_called_a_tie():
    assert set(TIED.leaders("f1")) == {"a", "b"}
    assert [row[1][-2:] for row in grid(TIED)] == [" =", " ="]
    assert verdict(TIED) == "By f1 a and b can't be told apart, on 4 examples."


def test_the_lower_is_better_where_it_is():
    assert evaluation("lower", **{k[0]: v for k, v in SURE.measured.items()}).leaders("f1") == ("b",)


def test_one_example_lets_nobody_win():
    both = evaluation(a=measured(0.5), b=measured(0.5))
    assert len(both.leaders("f1")) == 2


def test_what_has_no_value_leads_nothing():
    assert evaluation(a=measured(0.5, 0.6), b=measured(np.nan, np.nan)).leaders("f1")[0] == "a"


def test_tuning_says_whether_it_was_worth_it():
    assert "can't be told from the best preset, lrp" in verdict(made.tuning())


def test_concepts_say_where_and_how_surely():
    found = made.tcav()
    assert verdict(found).startswith("striped matters for zebra in 2 of 3 layers, most in layer 0 (0.80, chance 0.50")
    only = replace(found, layers=found.layers[1:2])
    assert verdict(only) == "No layer shows that striped matters for zebra: scores can't be told from chance."


def test_an_audit_says_whether_its_account_closes():
    assert "the inputs have +2; the model itself keeps the rest: bias +1.25" in verdict(made.audit())
    open_account = replace(made.audit(), inputs=3.0)
    assert isinstance(open_account.conservation, Conservation)
    assert "The account does not close" in verdict(open_account)


def test_citations_say_what_no_document_gave():
    assert "1 of 3 statements cite none" in verdict(made.citations())
    nothing = replace(made.citations(), documents=(0.0, 0.0), rest={"question": 1.0})
    assert verdict(nothing).startswith("No document speaks for this answer")


@pytest.mark.parametrize("name", REPORTED)
def test_every_report_has_one(name):
    said = verdict(made.every()[name])
    assert said.endswith(".")
    assert "nan" not in said


def test_a_pair_names_words_and_places_of_pictures():
    pair = made.pair()
    assert (
        verdict(pair)
        == "Their cosine similarity is 1, mainly because “<” goes with “kitten” and “the” goes with “kitten”."
    )
    assert "the top left of the picture goes with “a”" in verdict(made.seen_pair())
    both = replace(made.seen_pair(), matrix=np.eye(4), right=made.image())
    assert "the top left of the first picture goes with the top left of the second" in verdict(both)


def test_a_pair_that_is_not_similar_says_what_pulls_apart():
    pair = replace(made.pair(), score=-0.5)
    assert verdict(pair) == "Their cosine similarity is −0.5, mainly because “<” and “sat” pull apart."
    empty = replace(made.pair(), matrix=np.zeros((5, 2)))
    assert "no two parts of them go together" in verdict(empty)


def test_a_trace_names_words_that_are_about_as_strong_as_the_strongest_and_whose_they_are():
    trace = made.trace()
    scores = np.zeros(10)
    scores[4:6] = 1.0  # two tokens of one word
    scores[[0, 1]] = 9.0, 0.9  # a special token, and a word that is not half as strong
    told = verdict(replace(trace, whole=replace(trace.whole, scores=scores)))
    assert told == "“Rome is nice” came mainly from “city”, most of it from the chat template."
    scores[0] = 0.0
    told = verdict(replace(trace, whole=replace(trace.whole, scores=scores)))
    assert told.endswith("came mainly from “city”, most of it from what the user said.")
    scores[[0, 9]] = 1.95, 1.95  # nobody has half of it
    told = verdict(replace(trace, whole=replace(trace.whole, scores=scores)))
    assert told.endswith("the largest part from what the user said.")
