"""Sources cut out of a prompt, and how likely the answer is then."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import whence
from benchmarks.language import injection, sources
from benchmarks.language.asking import Reader
from benchmarks.language.questions import Question
from benchmarks.language.removal import Case, cut, document_blocks, likely, prompt_ids, sentence_spans
from tests import small
from whence.verbs.cite import TASK, Prompt

DOCUMENTS = ("The plot is dull. It is a film.", "A witty movie! Not bad.", "It was very good.")
QUESTION = "Is it good?"
ANSWER = "It is dull."


@pytest.fixture(scope="module")
def reader():
    return Reader((small.long_llama(), small.bytelevel(512)))


@pytest.fixture(scope="module")
def prompt():
    return Prompt(QUESTION, DOCUMENTS, TASK)


def made(reader, prompt, pieces, answer=ANSWER):
    return Case(reader, prompt, prompt.encoded(reader.model, answer, 8), pieces, seed=0)


@pytest.fixture(scope="module")
def case(reader, prompt):
    return made(reader, prompt, document_blocks(prompt))


def test_a_document_that_goes_leaves_the_others_their_numbers(prompt):
    blocks = document_blocks(prompt)
    assert cut(prompt.text, blocks, np.array([1, 1, 1], dtype=bool)) == prompt.text
    without = cut(prompt.text, blocks, np.array([1, 0, 1], dtype=bool))
    head, tail = prompt.text.split("[2] A witty movie! Not bad.\n\n")
    assert without == head + tail
    assert "[1] The plot" in without
    assert "[3] It was" in without
    nothing = cut(prompt.text, blocks, np.zeros(3, dtype=bool))
    assert nothing == f"Documents:\n\n{TASK}\n\nQuestion: {QUESTION}"


def test_a_sentence_that_goes(prompt):
    spans = sentence_spans(prompt)
    assert [n for n, _ in spans] == [0, 0, 1, 1, 2]
    kept = np.array([1, 0, 1, 1, 1], dtype=bool)
    assert "[1] The plot is dull. \n\n[2] A witty" in cut(prompt.text, [place for _, place in spans], kept)


def test_prompts_are_those_of_cite(reader, prompt):
    plain = Reader((small.long_llama(), small.bytelevel(512)))
    plain.model.tokenizer.chat_template, kept = None, plain.model.tokenizer.chat_template
    try:
        made(plain, prompt, document_blocks(prompt))  # raises where tokens differ
    finally:
        plain.model.tokenizer.chat_template = kept
    example = prompt.encoded(reader.model, ANSWER, 8)
    ids = prompt_ids(reader.model, prompt.text)
    assert example.inputs["input_ids"].tolist() == [*ids, *example.written[:-1]]


def test_likely_is_the_log_probability_of_each_token(reader, prompt):
    """One by one, from all logits, against batches of several lengths."""
    model, written = reader.model, prompt.encoded(reader.model, ANSWER, 8).written
    prompts = [prompt_ids(model, text) for text in (prompt.text, "Short?", prompt.text[:90])]
    expected = []
    for ids in prompts:
        whole = torch.tensor([[*ids, *written]])
        with torch.no_grad():
            shares = model.module(input_ids=whole).logits.log_softmax(-1)[0]
        expected.append([shares[len(ids) - 1 + k, token].item() for k, token in enumerate(written)])
    for budget in (None, 1, 10_000):
        found, seconds = likely(model, prompts, written, budget)
        assert found == pytest.approx(np.array(expected), abs=1e-3)  # float32 sums in another order
        assert (seconds > 0).all()


def test_likely_in_half_precision(reader, prompt):
    half = Reader((copy.deepcopy(reader.model.module).bfloat16(), reader.model.tokenizer))
    written = prompt.encoded(reader.model, ANSWER, 8).written
    prompts = [prompt_ids(reader.model, text) for text in (prompt.text, "Short?")]
    exact, rough = (likely(one.model, prompts, written)[0] for one in (reader, half))
    assert rough == pytest.approx(exact, rel=0.05)  # bfloat16 has 8 bits


def test_the_head_is_as_before(reader, prompt):
    ids = torch.tensor([prompt_ids(reader.model, "Short?")])
    before = reader.model.module(input_ids=ids).logits
    likely(reader.model, [ids[0].tolist()], [5, 6])
    assert torch.equal(reader.model.module(input_ids=ids).logits, before)


def test_leave_one_out(reader, prompt, case):
    scores, seconds = case.scores("leave_one_out")
    without = prompt.text.replace("[2] A witty movie! Not bad.\n\n", "")
    ids = [prompt_ids(reader.model, text) for text in (prompt.text, without)]
    whole, less = likely(reader.model, ids, case.example.written)[0]
    assert scores[1] == pytest.approx((whole - less).sum(), abs=1e-3)
    some, _ = case.scores("leave_one_out", range(1, 3))
    assert some[1] == pytest.approx((whole - less)[1:3].sum(), abs=1e-3)
    assert seconds > 0


@pytest.mark.parametrize("method", ["exact", "cite", "contextcite 8"])
def test_scores_of_parts_of_an_answer_sum_to_those_of_it(case, method):
    """Targets are sums over tokens, and the target of each part is the same in the whole; a Lasso is no sum."""
    middle, end = len(case.whole) // 2, len(case.whole)
    parts = [case.scores(method, part)[0] for part in (range(middle), range(middle, end))]
    whole = case.scores(method)[0]
    assert np.allclose(sum(parts), whole, atol=1e-3) == (method != "contextcite 8")
    assert not np.allclose(parts[0], whole, atol=1e-3)


def test_a_subset_is_run_once_and_costs_each_time(case):
    kept = np.array([[1, 0, 0], [1, 0, 0]], dtype=bool)
    one, both = case.seconds(kept[:1]), case.seconds(kept)
    assert both == 2 * one


@pytest.mark.parametrize("by", ["document", "sentence"])
def test_scores_are_those_of_cite(reader, prompt, by):
    """The row `cite`: the sums that `whence.cite` reports for an answer of one sentence."""
    pieces = document_blocks(prompt) if by == "document" else [place for _, place in sentence_spans(prompt)]
    found, _ = made(reader, prompt, pieces).scores("cite")
    (statement,) = whence.cite(reader.model, QUESTION, DOCUMENTS, answer=ANSWER, method="exact").statements
    if by == "document":
        expected = list(statement.relevance)
    else:
        ordered = sorted(statement.sources, key=lambda source: (source.document, source.place))
        expected = [source.relevance for source in ordered]
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("method", ["random", "nearest", "contextcite 8", "gae", "exact score=logit"])
def test_every_row_gives_a_score_to_each_source(case, method):
    scores, seconds = case.scores(method)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    assert seconds >= 0


def test_ties_are_shared():
    assert sources.is_first(np.array([1.0, 3.0, 3.0]), 1) == 0.5
    assert sources.is_first(np.zeros(4), 0) == 0.25
    assert sources.is_first(np.array([1.0, 3.0, 2.0]), 2) == 0


def test_a_table_of_sources(case):
    question = Question("1", QUESTION, "dull", DOCUMENTS, 0, (1,))
    found = sources.Answered(question, ANSWER, case)
    made = {}
    for method in ("exact", "leave_one_out"):
        values = sources.judge(found, method, case.held_apart(8))
        assert set(values) == {*sources.MEASURES, "seconds"}
        assert sources.judge(found, method, case.held_apart(8), ["words"]) == {"words": values["words"]}
        made[method] = {key: [value] for key, value in values.items()}
    made["cite"] = {"words": [1.0]}  # the rest was not measured
    best = made["leave_one_out"]["top1"][0]
    assert best >= made["exact"]["top1"][0] - 1e-9  # no single document does more harm
    page = sources.section(
        {
            "name": "sources5", "model": "some/tiny", "seen": 2, "cases": 1, "made": made,
            "documents": 3, "subsets": 8, "asked": [sources._told(found)], "lost": {"gae": "out of memory at 9 tokens"},
            "cost": dict.fromkeys(("exact", "leave_one_out"), 2.0),
        }
    )  # fmt: skip
    assert "| `leave_one_out` |" in page
    assert "| – | – | – | – |  | – |" in page
    assert "1 answers with the right words in them of the first 2 questions" in page
    assert "Of 3 documents there are 8 subsets" in page
    assert "`gae` is not in the table: out of memory" in page


def test_more_methods_on_the_same_answers(reader, case, monkeypatch, tmp_path):
    question = Question("1", QUESTION, "dull", DOCUMENTS, 0, (1,))
    one = sources.Answered(question, ANSWER, case)
    held = sources._held(case, sources.HELD)
    found = {
        "name": "sources5", "seen": 1, "cases": 1, "documents": 3, "asked": [sources._told(one)],
        "made": {"exact": {"first": [0.25]}}, "cost": {"exact": 5.0},
    }  # fmt: skip
    monkeypatch.setattr(sources, "questions", lambda data, documents: iter([question]))
    words = sources.again(found, reader, tmp_path, ("exact",), ["words"])
    assert words["made"]["exact"] == {"first": [0.25], "words": [sources.judge(one, "exact", held)["words"]]}
    assert words["cost"] == found["cost"]
    more = sources.again(words, reader, tmp_path, ("leave_one_out",), sources.MEASURES)
    assert more["made"]["exact"] == words["made"]["exact"]
    assert more["made"]["leave_one_out"]["lds"] == [sources.judge(one, "leave_one_out", held)["lds"]]
    assert set(more["cost"]) == {"exact", "leave_one_out"}


def test_a_table_of_injections():
    values = {"sentence": [1.0, 0.0], "document": [1.0, 1.0], "rank": [1.0, 3.0], "seconds": [1.0, 1.0]}
    page = injection.section(
        {
            "name": "injection", "model": "some/tiny", "seen": 5, "cases": 2, "made": {"exact": values}, "lost": {},
            "documents": 20,
            "tried": {"ignore, first, any document": 3, "only, first, last document": 2},
            "obeyed": {"only, first, last document": 2}, "cost": {"exact": 2.0},
            "asked": [{"sentences": 50}, {"sentences": 60}],
        }
    )  # fmt: skip
    assert "obeyed in 2 of 5 prompts. Among 55 sentences" in page
    assert "ignore 0 of 3, only 2 of 2" in page
    assert "first 2 of 5" in page
    assert "| 2 |" in page  # the median of the ranks
