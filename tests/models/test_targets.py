"""Targets: which outputs are explained, and that neighbours in a batch do not matter."""

from __future__ import annotations

import pytest
import torch

import whence
from tests import small
from whence.errors import InputError

TEXTS = ["good", "the plot of this movie is very very dull", "not bad"]


@pytest.mark.parametrize(
    "target",
    [
        lambda outputs: outputs.logits[:, 0] - outputs.logits[:, 2],
        lambda outputs: outputs.logits.logsumexp(-1),
        lambda outputs: outputs.logits.log_softmax(-1)[:, 1],
        lambda outputs: outputs.logits.softmax(-1)[:, 1].log(),
        lambda outputs: outputs.logits[0, 1],  # written for one input
        1,
        "LABEL_2",
        whence.contrast(0, 1),
    ],
)
def test_a_target_of_a_classifier_does_not_see_its_neighbours(target):
    model = whence.load((small.classifier(), small.wordpiece()))
    for text, exp in zip(TEXTS, whence.explain(model, TEXTS, target=target), strict=True):
        assert exp.target_score == pytest.approx(whence.explain(model, text, target=target).target_score, abs=1e-4)
        assert exp.conservation.error == pytest.approx(0, abs=1e-4)
        assert exp.scores.any()


@pytest.mark.parametrize(
    "target", [lambda outputs: outputs.logits.max(1).values[:, 1], lambda outputs: outputs.logits.mean((1, 2))]
)
def test_a_function_over_all_tokens_does_not_see_padding(target):
    model = whence.load((small.tagger(), small.wordpiece()))
    for text, exp in zip(TEXTS, whence.explain(model, TEXTS, target=target, batch_tokens=10_000), strict=True):
        with torch.no_grad():
            by_hand = float(target(small.tagger()(**small.wordpiece()(text, return_tensors="pt")))[0])
        assert exp.target_score == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.parametrize("target", [-1, 3, whence.contrast(0, -1), whence.contrast(3, 0)])
def test_classes_are_counted_from_zero(target):
    with pytest.raises(InputError, match="does not exist: the model has 3 outputs"):
        whence.explain((small.classifier(), small.wordpiece()), "good", target=target)


# -- answers -------------------------------------------------------------------------------------------------------

QUESTION, CONTEXT = "is the movie dull", "the plot is dull but the movie is witty"


@pytest.fixture
def answers():
    return whence.load((small.answerer(), small.wordpiece()))


def logits():
    with torch.no_grad():
        found = small.answerer()(**small.wordpiece()(QUESTION, CONTEXT, return_tensors="pt"))
    return found.start_logits[0], found.end_logits[0]


def test_the_answer_lies_in_the_context_and_is_named_by_its_text(answers):
    start, end = logits()
    first = 1 + len(QUESTION.split()) + 1
    inside = range(first, first + len(CONTEXT.split()))
    best = max((float(start[i] + end[j]), i, j) for i in inside for j in inside if i <= j)
    exp = whence.explain(answers, (QUESTION, CONTEXT))
    assert exp.target_score == pytest.approx(best[0], abs=1e-4)
    words = CONTEXT.split()
    assert exp.target == " ".join(words[best[1] - first : best[2] - first + 1])


def test_an_answer_is_found_by_its_text(answers):
    """Also one that the question contains: it is looked for in the context."""
    start, end = logits()
    exp = whence.explain(answers, (QUESTION, CONTEXT), target="the movie")
    place = small.wordpiece()(QUESTION, CONTEXT)["input_ids"]
    the, movie = (small.wordpiece().convert_tokens_to_ids(w) for w in ("the", "movie"))
    first = max(i for i in range(len(place) - 1) if place[i : i + 2] == [the, movie])
    assert exp.target == "the movie"
    assert exp.target_score == pytest.approx(float(start[first] + end[first + 1]), abs=1e-4)


def test_an_answer_that_stands_nowhere(answers):
    with pytest.raises(InputError, match="does not stand in the context"):
        whence.explain(answers, (QUESTION, CONTEXT), target="Berlin")


def test_answers_in_a_batch(answers):
    pairs = [(QUESTION, CONTEXT), ("is it", "it is a good film")]
    for pair, exp in zip(pairs, whence.explain(answers, pairs, batch_tokens=10_000), strict=True):
        alone = whence.explain(answers, pair)
        assert exp.target == alone.target
        assert exp.target_score == pytest.approx(alone.target_score, abs=1e-4)


# -- taggers -------------------------------------------------------------------------------------------------------


def test_a_tagger_never_picks_padding_or_special_tokens():
    model = whence.load((small.tagger(), small.wordpiece()))
    for text, exp in zip(TEXTS, whence.explain(model, TEXTS, batch_tokens=10_000), strict=True):
        position = int(exp.target.rpartition(" ")[2])
        assert 1 <= position <= len(text.split())


def test_an_encoded_pair_has_a_question_and_a_context(answers):
    """By its types; by what stands between the texts where it has none."""
    question, context = "who is dull ?", "the plot of this movie is very dull"
    wanted = whence.explain(answers, (question, context))
    encoded = dict(small.wordpiece()(question, context, return_tensors="pt"))
    encoded.pop("token_type_ids", None)
    assert whence.explain(answers, encoded).target_score == pytest.approx(wanted.target_score, abs=1e-5)
    split = encoded["input_ids"].shape[1] - 4
    typed = {**encoded, "token_type_ids": (torch.arange(split + 4) >= split).long()[None]}
    exp = whence.explain(answers, typed)
    assert exp.sides == ("first",) * split + ("second",) * 4


def test_targets_of_other_models_are_refused(answers):
    pair = ("who is dull ?", "the plot is dull")
    for target in (3, whence.contrast(3, 5), whence.token(1)):
        with pytest.raises(InputError, match="not logits: this target is not for it"):
            whence.explain(answers, pair, target=target)
    with pytest.raises(InputError, match="labels none"):
        whence.explain(whence.load((small.classifier(), small.wordpiece())), "good", target=whence.token(1))
    with pytest.raises(InputError, match="no classes of an input"):
        whence.evaluate(answers, [pair], methods=["gi"], metrics=["auac"])


def test_whole_words_and_letters_that_change_their_length(answers):
    pair = ("who ?", "İİİ this movie is dull")
    exp = whence.explain(answers, pair, target="is")
    assert exp.target == "is"
    assert whence.explain(answers, pair, target="dull").target == "dull"
    ids = small.wordpiece()(*pair, return_tensors="pt")
    with pytest.raises(InputError, match=r"whence\.answer"):
        whence.explain(answers, dict(ids), target="dull")
    start = list(exp.tokens).index("dull")
    named = whence.explain(answers, dict(ids), target=whence.answer(start, start))
    assert named.target_score == pytest.approx(whence.explain(answers, pair, target="dull").target_score, abs=1e-5)


@pytest.mark.parametrize("wrong", [None, 1.0, True, [1]])
def test_a_contrast_is_of_classes_or_words(wrong):
    with pytest.raises(InputError, match="contrast takes"):
        whence.contrast(0, wrong)


def test_a_contrast_is_of_two_answers():
    for same in (("positive", "positive"), (1, 1), (1, 1, 1)):
        with pytest.raises(InputError, match=r"a contrast needs two different answers, and .* is on both sides"):
            whence.contrast(*same)
    with pytest.raises(InputError, match="two different answers, and 'LABEL_1' and 1 are one class"):
        whence.explain((small.classifier(), small.wordpiece()), "good", target=whence.contrast("LABEL_1", 1))


@pytest.mark.parametrize("label", [0.7, True, None, [1]])
def test_labels_that_are_no_class(label):
    model = whence.load((small.classifier(), small.wordpiece()))
    with pytest.raises(InputError, match="is no class"):
        model.class_of(label)
