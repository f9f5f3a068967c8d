"""What of a language model's words is explained, against the model called by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import whence
from tests import small

PROMPT = "the plot"


@pytest.fixture
def lm():
    return whence.load((small.llama(), small.bytelevel()))


def logits(text: str) -> torch.Tensor:
    ids = small.bytelevel()(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return small.llama()(ids).logits[0].double()


def number(letter: str) -> int:
    return small.bytelevel()(letter)["input_ids"][0]


@pytest.mark.parametrize(
    ("score", "by_hand"),
    [
        ("logit", lambda row, i: row[i]),
        ("margin", lambda row, i: row[i] - row[torch.arange(len(row)) != i].max()),
        ("logprob", lambda row, i: row.log_softmax(-1)[i]),
        ("probability", lambda row, i: row.softmax(-1)[i]),
    ],
)
def test_scores_of_written_words(lm, score, by_hand):
    rows = logits(PROMPT + "movi")[len(PROMPT) - 1 :]
    wanted = sum(float(by_hand(row, number(letter))) for row, letter in zip(rows, "movie", strict=True))
    exp = whence.explain(lm, PROMPT, continuation="movie", target=whence.span(score=score), receipt="full")
    assert exp.target_score == pytest.approx(wanted, abs=1e-4)
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    assert exp.conservation.target == pytest.approx(wanted, abs=1e-4)


def gradient_times_input(text: str, function) -> np.ndarray:
    """∂ function(logits of the last token) / ∂ embedding · embedding, by autograd alone."""
    model = small.llama()
    ids = small.bytelevel()(text, return_tensors="pt")["input_ids"]
    embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
    function(model(inputs_embeds=embedded).logits[0, -1]).backward()
    return (embedded.grad * embedded).sum(-1)[0].detach().numpy()


def test_probabilities_are_explained_by_their_gradient(lm):
    letter = number("m")
    for score, function in (
        ("logprob", lambda row: row.log_softmax(-1)[letter]),
        ("probability", lambda row: row.softmax(-1)[letter]),
    ):
        exp = whence.explain(lm, PROMPT, "gi", whence.span(score=score), continuation="m")
        np.testing.assert_allclose(exp.scores, gradient_times_input(PROMPT, function), atol=1e-5)


def test_entropy(lm):
    row = logits(PROMPT)[-1]
    wanted = float(torch.distributions.Categorical(logits=row).entropy())
    exp = whence.explain(lm, PROMPT, target=whence.entropy(), receipt="full")
    assert exp.target_score == pytest.approx(wanted, abs=1e-4)
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    found = whence.explain(lm, PROMPT, "gi", whence.entropy())
    by_hand = gradient_times_input(PROMPT, lambda row: torch.distributions.Categorical(logits=row).entropy())
    np.testing.assert_allclose(found.scores, by_hand, atol=1e-5)


def test_rather_than_several(lm):
    rows = logits(PROMPT + "m")[len(PROMPT) - 1 :]
    exp = whence.explain(lm, PROMPT, target=whence.contrast("mo", "ma", "b"))
    wanted = (rows[1, number("o")] - rows[1, number("a")] + rows[0, number("m")] - rows[0, number("b")]) / 2
    assert exp.target_score == pytest.approx(float(wanted), abs=1e-4)
    assert exp.target == "o, m rather than a, b"
    by_id = whence.explain(lm, PROMPT, target=whence.contrast(number("m"), number("a"), number("b")))
    wanted = rows[0, number("m")] - (rows[0, number("a")] + rows[0, number("b")]) / 2
    assert by_id.target_score == pytest.approx(float(wanted), abs=1e-4)
    with pytest.raises(whence.WhenceError, match="'mo' and 'm' do not differ"):
        whence.explain(lm, PROMPT, target=whence.contrast("mo", "m"))
    with pytest.raises(whence.WhenceError, match="at least one"):
        whence.contrast("a")


def test_classes_rather_than_several():
    model = (small.classifier(), small.wordpiece())
    both = [whence.explain(model, "a film", target=whence.contrast(0, n)) for n in (1, 2)]
    mean = whence.explain(model, "a film", target=whence.contrast(0, 1, 2))
    np.testing.assert_allclose(mean.scores, (both[0].scores + both[1].scores) / 2, atol=1e-6)


def test_a_place_in_the_middle(lm):
    row = logits(PROMPT)[3]
    best = int(row.argmax())
    exp = whence.explain(lm, PROMPT, target=whence.token(3))
    assert exp.target_score == pytest.approx(float(row[best] - row[torch.arange(len(row)) != best].max()), abs=1e-4)
    assert not exp.scores[4:].any()
    named = whence.explain(lm, PROMPT, target=whence.token(3, "p"))
    rest = row[torch.arange(len(row)) != number("p")].max()
    assert named.target_score == pytest.approx(float(row[number("p")] - rest), abs=1e-4)
    with pytest.raises(whence.WhenceError, match="token 99"):
        whence.explain(lm, PROMPT, target=whence.token(99))


def test_a_word_that_ends_the_text(lm):
    """Special tokens are words as well."""
    exp = whence.explain(lm, PROMPT, target="<eos>")
    assert exp.target_score == pytest.approx(float(logits(PROMPT)[-1, 1]), abs=1e-4)


def test_changed_inputs_have_no_gradient(lm):
    with pytest.raises(whence.WhenceError, match="score='margin'"):
        whence.explain(lm, PROMPT, "occlusion", whence.span(score="logprob"), continuation="m")
    with pytest.raises(whence.WhenceError, match="score='lodgit'"):
        whence.span(score="lodgit")
    with pytest.raises(whence.WhenceError, match="writes none"):
        whence.explain("sentiment", "a gem", target=whence.entropy())


@pytest.mark.parametrize("place", [0, 2, -1])
def test_why_a_token_was_written_rather_than_another(lm, place):
    ids = whence.explain(lm, PROMPT, generate=4).ids
    n = place % 4
    before = torch.tensor([[*small.bytelevel()(PROMPT)["input_ids"], *ids[:n]]])
    with torch.no_grad():
        row = small.llama()(before).logits[0, -1].double()
    rival = next(letter for letter in "xy" if number(letter) != ids[n])
    exp = whence.explain(lm, PROMPT, "gi", whence.written(place, than=rival), continuation=ids)
    assert exp.target_score == pytest.approx(float(row[ids[n]] - row[number(rival)]), abs=1e-4)
    assert len(exp) == before.shape[1]  # nothing that was written later
    assert exp.prediction.scores[0] == pytest.approx(float(row.max()), abs=1e-4)
    alone = whence.explain(lm, PROMPT, "gi", whence.written(place), continuation=ids)
    others = row[torch.arange(len(row)) != ids[n]]
    assert alone.target_score == pytest.approx(float(row[ids[n]] - others.max()), abs=1e-4)
    span = whence.explain(lm, PROMPT, "gi", whence.span(n, n + 1), continuation=ids)
    np.testing.assert_allclose(alone.scores, span.scores[: len(alone)], atol=1e-5)


def test_words_that_begin_alike_are_compared_where_they_part(lm):
    row = logits(PROMPT + "mov")[-1]
    parted = whence.explain(lm, PROMPT, target=whence.written(2, than="ve"), continuation="movie")
    assert parted.target == "i rather than e"
    assert parted.target_score == pytest.approx(float(row[number("i")] - row[number("e")]), abs=1e-4)


def test_what_was_not_written_has_no_reason(lm):
    for target, said in (
        (whence.written(5), "does not exist: 5 were written"),
        (whence.written(3, than="ie"), "do not differ"),
        (whence.written(0, than=""), "do not differ"),
    ):
        with pytest.raises(whence.WhenceError, match=said):
            whence.explain(lm, PROMPT, target=target, continuation="movie")
    with pytest.raises(whence.WhenceError, match="does not exist: 0"):
        whence.explain(lm, PROMPT, target=whence.written(0))
    with pytest.raises(whence.WhenceError, match="this model writes none"):
        whence.explain((small.classifier(), small.wordpiece()), PROMPT, target=whence.written(0))
    with pytest.raises(whence.WhenceError, match="place"):
        whence.written("movie")


def test_a_translation_is_asked_about_too():
    model = whence.load((small.t5(), small.wordpiece()))
    trace = whence.explain(model, "a good movie", generate=3)
    exp = whence.explain(model, "a good movie", target=whence.written(1), continuation=trace.ids)
    assert exp.target_score == pytest.approx(trace.target_scores[1], abs=1e-4)
