"""Answers and the documents they came from."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import torch

import whence
from tests import small

DOCUMENTS = {"first": "The plot is dull. It is a film.", "second": "A witty movie! Not bad."}
QUESTION = "Is it good?"
ANSWER = "It is dull. Not bad."
"""The model would have said other things, so little speaks for it."""


@pytest.fixture
def lm():
    return whence.load((small.long_llama(), small.bytelevel(512)))


@pytest.fixture
def cited(lm):
    return whence.cite(lm, QUESTION, DOCUMENTS, answer=ANSWER)


def test_citations_are_sums_of_tokens(lm, cited):
    whole, text = cited.trace.whole, cited.trace.whole.text
    for row, statement in enumerate(cited.statements):
        scores = cited.trace.scores[row].astype(np.float64)
        for n, document in enumerate(DOCUMENTS.values()):
            begin = text.index(document)
            inside = [begin <= a < begin + len(document) for a, _ in whole.offsets]
            assert statement.relevance[n] == pytest.approx(scores[inside].sum(), abs=1e-6)
            parts = [source for source in statement.sources if source.document == n]
            assert sum(source.relevance for source in parts) == pytest.approx(statement.relevance[n], abs=1e-6)
            assert sum(source.share for source in parts) == pytest.approx(statement.documents[n], abs=1e-6)
            for source in parts:
                a, b = source.place
                assert document[a:b].strip() == source.text
                held = [begin + a <= c < begin + b for c, _ in whole.offsets]
                assert source.relevance == pytest.approx(scores[held].sum(), abs=1e-6)
        assert sum(statement.documents) + statement.elsewhere == pytest.approx(1, abs=1e-6)


def test_everything_is_accounted_for(cited):
    """Documents, question, instructions, earlier text and memory are all there is."""
    for row, statement in enumerate(cited.statements):
        scores, sides = cited.trace.scores[row], np.array(cited.trace.whole.sides)
        others = sum(scores[sides == side].sum() for side in ("question", "instructions", "continuation"))
        receipt = cited.trace.receipts[row]
        total = sum(statement.relevance) + others + receipt.total - receipt.inputs
        assert total == pytest.approx(statement.target_score, abs=1e-4)
    assert set(cited.rest) == {"question", "instructions", "earlier text", "memory"}
    assert sum(cited.documents) + cited.elsewhere == pytest.approx(1, abs=1e-6)
    assert cited.statements[0].rest["earlier text"] >= 0


@pytest.mark.parametrize("method", ["lrp", "saliency"])
def test_shares_are_of_what_is_positive(lm, method):
    """Every share by hand. Saliency has no negative scores, so that each side has a share."""
    cited = whence.cite(lm, QUESTION, DOCUMENTS, answer=ANSWER, method=method)
    sides, totals = np.array(cited.trace.whole.sides), np.zeros(6)

    def shares(amounts: np.ndarray) -> np.ndarray:
        return amounts.clip(0) / max(amounts.clip(0).sum(), 1e-12)

    for row, statement in enumerate(cited.statements):
        names = ["document 1", "document 2", "question", "instructions", "continuation"]
        amounts = np.array([*(cited.trace.scores[row][sides == side].sum() for side in names), 0.0])
        if method == "lrp":
            amounts[5] = cited.trace.receipts[row].total - cited.trace.receipts[row].inputs
        totals += amounts
        np.testing.assert_allclose([*statement.documents, *statement.rest.values()], shares(amounts), atol=1e-5)
    np.testing.assert_allclose([*cited.documents, *cited.rest.values()], shares(totals), atol=1e-5)
    assert list(cited.rest) == ["question", "instructions", "earlier text", "memory"]
    assert method == "lrp" or cited.rest["earlier text"] > 0


def test_what_is_cited(cited):
    assert cited.answer == ANSWER
    assert [statement.text for statement in cited.statements] == ["It is dull.", "Not bad."]
    assert [source.text for source in sorted(cited.statements[0].sources, key=lambda s: (s.document, s.place))] == [
        "The plot is dull.", "It is a film.", "A witty movie!", "Not bad.",
    ]  # fmt: skip
    shares = [source.share for source in cited.statements[0].sources]
    assert shares == sorted(shares, reverse=True)
    assert all(source.share >= 0.1 for source in cited.statements[0].cited)
    assert cited.names == ("first", "second")
    assert cited.top(1)[0][1] == max(cited.documents)


def test_words_are_explained_against_what_comes_without_the_documents(lm, cited):
    """Prompt and answer as the model reads them: logits less their mean under the shares of the bare prompt."""
    whole = cited.trace.whole
    prompt = whole.text[: len(whole.text) - len(ANSWER)]
    bare = prompt[: prompt.index("[1]")] + prompt[prompt.index("Answer the question") :]
    ids, less = (lm.tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids for text in (prompt, bare))
    words = lm.tokenizer(ANSWER, add_special_tokens=False, return_tensors="pt").input_ids
    with torch.no_grad():
        expected = lm.module(torch.cat([less, words], 1)).logits[0, less.shape[1] - 1 : -1].softmax(-1)
    chosen = slice(ANSWER.index("Not"), len(ANSWER))  # a token is a letter

    def beyond(outputs):
        logits = outputs.logits[0, ids.shape[1] - 1 :]
        own = logits.gather(-1, words[0, :, None])[:, 0]
        return (own - (expected * logits).sum(-1))[chosen].sum()[None]

    exp = whence.explain(lm, prompt, continuation=ANSWER, target=beyond)
    assert cited.statements[1].target_score == pytest.approx(exp.target_score, abs=1e-5)
    np.testing.assert_allclose(cited.trace[1].scores, exp.scores, atol=1e-5)


@pytest.mark.parametrize("method", ["occlusion", "gae"])
def test_other_methods_cite_too(lm, method):
    cited = whence.cite(lm, QUESTION, DOCUMENTS, answer="It is dull.", method=method)
    assert sum(cited.documents) + cited.elsewhere == pytest.approx(1, abs=1e-6)
    assert any(cited.statements[0].relevance)


def test_the_model_answers_itself(lm):
    cited = whence.cite(lm, QUESTION, list(DOCUMENTS.values()), generate=5)
    assert cited.names == ("document 1", "document 2")
    assert len(cited.trace.text) > 0
    sampled = {"max_new_tokens": 5, "do_sample": True, "seed": 1}
    again = [whence.cite(lm, QUESTION, DOCUMENTS, generate=sampled, method="attn_lrp") for _ in range(2)]
    assert again[0].answer == again[1].answer
    assert again[0].documents == again[1].documents


def test_without_a_template(lm):
    tokenizer = small.bytelevel(512)
    plain = type(tokenizer)(tokenizer_object=tokenizer._tokenizer, pad_token="<pad>", eos_token="<eos>")
    cited = whence.cite((small.long_llama(), plain), QUESTION, DOCUMENTS, answer=ANSWER)
    assert cited.answer == ANSWER
    assert cited.trace.whole.text.endswith(f"{QUESTION}\n\nAnswer: {ANSWER}")


def test_saved_and_loaded(cited, tmp_path):
    again = whence.Citations.load(cited.save(tmp_path / "c.json"))
    assert again.to_dict() == cited.to_dict()
    assert again.statements == cited.statements


def test_what_can_not_be_cited(lm):
    for documents in ([], {}):
        with pytest.raises(whence.WhenceError, match="no documents"):
            whence.cite(lm, QUESTION, documents)
    with pytest.raises(whence.WhenceError, match="document 2 has no text"):
        whence.cite(lm, QUESTION, ["a", " "])
    with pytest.raises(whence.WhenceError, match="several texts"):
        whence.cite(lm, QUESTION, "one text")
    with pytest.raises(whence.WhenceError, match="no question"):
        whence.cite(lm, " ", ["a"])
    with pytest.raises(whence.WhenceError, match="goes on writing"):
        whence.cite("sentiment", QUESTION, ["a"])
    for answer in ("", " \n", 5, []):
        with pytest.raises(whence.WhenceError, match="answer="):
            whence.cite(lm, QUESTION, ["a"], answer=answer)
    for documents in (None, 5):
        with pytest.raises(whence.WhenceError, match="several texts"):
            whence.cite(lm, QUESTION, documents)
    with pytest.raises(whence.WhenceError, match="not a frame"):
        whence.cite(lm, QUESTION, pandas.DataFrame({"title": ["t"], "text": ["a film."]}))
    with pytest.raises(whence.WhenceError, match="task"):
        whence.cite(lm, QUESTION, ["a"], task=None)
    with pytest.raises(whence.WhenceError, match="max_new_tokenz"):
        whence.cite(lm, QUESTION, ["a"], generate={"max_new_tokenz": 5})
    rows = [{"title": "t", "text": "a film."}, {"name": "n", "text": "b."}, {"text": "c."}]
    assert whence.cite(lm, QUESTION, rows, answer="d.").names == ("t", "n", "document 3")
    with pytest.raises(whence.WhenceError, match="at most 512 tokens: pass fewer"):
        whence.cite(lm, QUESTION, ["a film " * 100], answer="b")
    with pytest.raises(whence.WhenceError, match="at most 512"):
        whence.cite(lm, QUESTION, ["a film."], answer="b " * 250)


def test_statements_in_any_script(lm):
    cited = whence.cite(lm, QUESTION, DOCUMENTS, answer="中文。Not 😀 bad. 很好。")
    assert [statement.text for statement in cited.statements] == ["中文。", "Not 😀 bad.", "很好。"]


def test_an_answer_is_cited_again_token_by_token(lm):
    """As a text, it would be tokenized anew, and without the white space around it."""
    cited = whence.cite(lm, QUESTION, DOCUMENTS, generate=8)
    again = whence.cite(lm, QUESTION, DOCUMENTS, answer=cited.trace.ids)
    assert again.answer == cited.answer
    assert again.trace.ids == cited.trace.ids
    assert again.documents == pytest.approx(cited.documents, abs=1e-6)
