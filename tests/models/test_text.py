"""Encoding, targets and errors of text models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

import whence
from tests import small
from whence.errors import EmptyInputError, InputError, InputTooLongError, ModelError, NumericsError, UnknownNameError
from whence.models.text import LETTERS


@pytest.fixture
def model():
    return whence.load((small.classifier(), small.wordpiece()))


@pytest.fixture
def lm():
    return whence.load((small.llama(), small.bytelevel()))


def test_a_list_in_a_list_out_in_order(model):
    texts = ["not very good", "bad", "the plot of this movie is dull", "good"]
    results = whence.explain(model, texts, batch_tokens=12)
    assert [exp.text for exp in results] == texts
    assert isinstance(whence.explain(model, texts[0]), whence.Explanation)


def test_pairs_words_and_encoded_inputs_agree(model):
    pair = whence.explain(model, ("a good movie", "dull plot"))
    assert pair.sides[1] == "first"
    assert pair.sides[-2] == "second"
    text = whence.explain(model, "a good movie")
    words = whence.explain(model, [["a", "good", "movie"]])[0]
    encoded = whence.explain(model, dict(small.wordpiece()("a good movie", return_tensors="pt")))
    np.testing.assert_allclose(words.scores, text.scores, atol=1e-6)
    np.testing.assert_allclose(encoded.scores, text.scores, atol=1e-6)


def test_encoded_padding_is_cut_away(model):
    batch = small.wordpiece()(["good", "a very good movie"], padding=True, return_tensors="pt")
    results = whence.explain(model, dict(batch))
    assert [len(exp) for exp in results] == [3, 6]


def test_words_merge_by_white_space(model):
    exp = whence.explain(model, "Unwatchable, dull movie!")
    words = exp.words()
    assert [w.text for w in words] == ["[CLS]", "Unwatchable,", "dull", "movie!", "[SEP]"]
    assert sum(w.score for w in words) == pytest.approx(float(exp.scores.sum()), abs=1e-5)
    largest = exp.words("max")[1]
    assert abs(largest.score) == pytest.approx(float(np.abs(exp.scores[list(largest.tokens)]).max()))


def test_left_out_mass_is_reported(model):
    exp = whence.explain(model, "a good movie")
    bare = whence.explain(model, "a good movie", special_tokens=False)
    assert bare.tokens == ("a", "good", "movie")
    assert bare.left_out == pytest.approx(float(exp.scores[0] + exp.scores[-1]), abs=1e-6)


def test_labels_and_contrast(model):
    named = whence.load((small.classifier(), small.wordpiece()))
    assert whence.explain(named, "good", target="LABEL_2").target == "LABEL_2"
    assert whence.explain(named, "good", target="label_2").target == "LABEL_2"
    assert whence.explain(named, "good", target=whence.contrast(0, 1)).target == "LABEL_0 rather than LABEL_1"
    with pytest.raises(UnknownNameError, match="Did you mean 'LABEL_2'"):
        whence.explain(named, "good", target="LABL_2")
    with pytest.raises(InputError, match="class 7 does not exist"):
        whence.explain(named, "good", target=7)


def test_one_target_for_each_input(model):
    results = whence.explain(model, ["good", "a dull movie"], target=[2, 0])
    assert [exp.target for exp in results] == ["LABEL_2", "LABEL_0"]
    with pytest.raises(InputError, match="3 targets for 2 inputs"):
        whence.explain(model, ["good", "bad"], target=[0, 1, 2])


def test_a_function_of_the_outputs(model):
    mine = whence.explain(model, "good", target=lambda out: out.logits[:, 0] - out.logits[:, 1])
    ours = whence.explain(model, "good", target=whence.contrast(0, 1))
    np.testing.assert_allclose(mine.scores, ours.scores, atol=1e-6)


def test_regression_and_multi_label():
    single = whence.load((small.classifier(1), small.wordpiece()))
    exp = whence.explain(single, "good")
    assert exp.prediction.probabilities == ()
    many = small.classifier(4)
    many.config.problem_type = "multi_label_classification"
    exp = whence.explain(whence.load((many, small.wordpiece())), "good", target=1)
    assert sum(exp.prediction.probabilities) != pytest.approx(1.0)


def test_token_classification():
    model = whence.load((small.tagger(), small.wordpiece()))
    exp = whence.explain(model, "a good movie", target=whence.token(2, "LABEL_1"))
    assert exp.target == "LABEL_1 at token 2"
    assert "at token" in whence.explain(model, "a good movie").target
    with pytest.raises(InputError, match="token 99 does not exist"):
        whence.explain(model, "a good movie", target=whence.token(99))


def test_question_answering():
    model = whence.load((small.answerer(), small.wordpiece()))
    exp = whence.explain(model, ("is it good", "this movie is dull"))
    assert exp.target in "this movie is dull"
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)


def test_attribution_layers_add_up(model):
    word, place, both = (whence.explain(model, "a good movie", at=n) for n in ("word", "position", "embedding"))
    np.testing.assert_allclose(both.scores, word.scores + place.scores, atol=1e-5)
    for exp in (word, place, both):
        assert exp.conservation.error == pytest.approx(0, abs=1e-5)


def test_layer_without_positions_says_so(lm):
    with pytest.raises(ModelError, match="at='word'"):
        whence.explain(lm, "the plot", at="position")


@pytest.mark.parametrize("text", ["\x00\u200b", "", "   ", "\n\t"])
def test_empty_text(model, text):
    with pytest.raises(EmptyInputError, match="empty"):
        whence.explain(model, text)
    with pytest.raises(EmptyInputError):
        whence.explain(model, [])


def test_too_long_says_the_limit_and_the_way_out(model):
    text = "good " * 100
    with pytest.raises(InputTooLongError, match=r"102 tokens .* at most 48.*truncate=True"):
        whence.explain(model, text)
    assert len(whence.explain(model, text, truncate=True)) == 48


def test_a_text_that_no_model_could_take_is_not_tokenized(monkeypatch):
    """A tokenizer took 10 GB for 24 MB, to say that they were too long."""
    model = whence.load((small.classifier(), small.wordpiece()))
    most, seen = LETTERS * model.limit, []
    tokenized = type(model.tokenizer).__call__
    spy = lambda self, *texts, **options: seen.append(texts[0]) or tokenized(self, *texts, **options)
    monkeypatch.setattr(type(model.tokenizer), "__call__", spy)
    for item in ("gem " * most, ["gem"] * most):
        with pytest.raises(InputTooLongError, match=r"characters, and the model takes at most .*truncate=True"):
            whence.explain(model, [item, "a gem"])
        seen.clear()
        assert len(whence.explain(model, [item], truncate=True)[0]) == model.limit
        assert max(map(len, seen)) <= most
    blank = " " * 2 * most
    for text in (blank + "a film", "a film" + blank):
        assert whence.explain(model, text, truncate=True).tokens == ("[CLS]", "a", "film", "[SEP]")
    assert len(whence.explain(model, "a film" + blank)) == 4


def test_no_tokenizer():
    with pytest.raises(InputError, match="without a tokenizer"):
        whence.explain(small.classifier(), "good")


def test_nonsense_input(model):
    with pytest.raises(InputError, match="pass a text"):
        whence.explain(model, [3.5])


def test_nan_weights_are_named():
    broken = transformers.BertForSequenceClassification(small.classifier().config).eval()
    with torch.no_grad():
        broken.bert.pooler.dense.weight[0, 0] = float("nan")
    with pytest.raises(NumericsError, match=r"bert\.pooler\.dense\.weight"):
        whence.explain((broken, small.wordpiece()), "good")


def test_half_precision_overflow_says_what_to_do():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).half().eval()
    with torch.no_grad():
        module[0].weight.fill_(300.0)
        module[1].weight.fill_(300.0)
    with pytest.raises(NumericsError, match="bfloat16"):
        whence.explain(module, torch.ones(1, 4).half() * 100)


def test_bfloat16_is_close(model):
    low = transformers.BertForSequenceClassification(small.classifier().config)
    low.load_state_dict(small.classifier().state_dict())
    exp = whence.explain((low.bfloat16().eval(), small.wordpiece()), "a good movie", target=0)
    full = whence.explain(model, "a good movie", target=0)
    assert np.corrcoef(exp.scores, full.scores)[0, 1] > 0.99


def test_training_mode_is_refused():
    module = transformers.BertForSequenceClassification(small.classifier().config).train()
    with pytest.raises(ModelError, match=r"model\.eval\(\)"):
        whence.load((module, small.wordpiece()))


def test_unknown_method_and_option(model):
    with pytest.raises(UnknownNameError, match="Did you mean 'attn_lrp'"):
        whence.explain(model, "good", "atn_lrp")
    with pytest.raises(InputError, match="Its options"):
        whence.explain(model, "good", "exact", gama=0.1)


def test_a_recipe_of_ones_own(model):
    mine = whence.Recipe("mine", softmax="detach", norm="detach")
    ours = whence.explain(model, "a good movie", "ah_ln")
    np.testing.assert_array_equal(whence.explain(model, "a good movie", mine).scores, ours.scores)


def test_decoder_classifier_without_a_padding_id_goes_one_by_one():
    config = transformers.LlamaConfig(**{**small.llama_classifier().config.to_dict(), "pad_token_id": None})
    module = small.randomised(transformers.LlamaForSequenceClassification(config))
    model = whence.load((module, small.bytelevel()))
    assert len(whence.explain(model, ["a", "abc"])) == 2
    assert model.beside(model.encode(["a", "abc"])[0]) == "alone"


def test_texts_by_their_names(model):
    wanted = whence.explain(model, "a good movie")
    np.testing.assert_array_equal(whence.explain(model, {"text": "a good movie"}).scores, wanted.scores)
    pair = whence.explain(model, [{"text": "a good movie", "text_pair": "a dull plot"}, {"text": "it"}])
    np.testing.assert_array_equal(
        pair[0].scores, whence.explain(model, [("a good movie", "a dull plot"), "it"])[0].scores
    )


def test_a_question_comes_with_a_context():
    reader = whence.load((small.answerer(), small.wordpiece()))
    wanted = whence.explain(reader, ("is it good", "the movie was dull"))
    named = whence.explain(reader, {"question": "is it good", "context": "the movie was dull"})
    np.testing.assert_array_equal(named.scores, wanted.scores)
    assert named.target == wanted.target
    with pytest.raises(InputError, match=r"pass a pair \(question, context\)"):
        whence.explain(reader, "is it good")
