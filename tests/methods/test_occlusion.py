"""Occlusion."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import transformers

import whence
from tests import small
from tests.methods.games import Additive, Interacting
from tests.reference import perturbation as reference
from whence.errors import InputError, OptionError

TOKENS = torch.tensor([[4, 7, 7, 2, 11, 9]])
FLOATS = torch.tensor([[1.5, -2.0, 0.3, 0.7, 1.1]], dtype=torch.float64)


@pytest.fixture(scope="module")
def model():
    return whence.load((small.classifier(), small.wordpiece()))


def _logit(model, ids: list[int], label: int) -> float:
    with torch.no_grad():
        return float(model.module(input_ids=torch.tensor([ids])).logits[0, label])


def _ids(text: str) -> list[int]:
    return small.wordpiece()(text)["input_ids"]


def test_additive_model():
    module = Additive().eval()
    exp = whence.explain(module, {"tokens": TOKENS}, "occlusion", target=1)
    np.testing.assert_allclose(exp.scores, module.by_hand(TOKENS, 1)[0], rtol=1e-6)  # scores are float32


def test_reference():
    module = Interacting().eval()
    value = lambda kept: float(module(FLOATS * torch.tensor([[i in kept for i in range(5)]]))[0, 0].detach())
    exp = whence.explain(module, FLOATS, "occlusion", target=0)
    np.testing.assert_allclose(exp.scores, reference.occlusion(value, 5), rtol=1e-6)


@pytest.mark.parametrize("fill", ["mask", "unk", "pad"])
def test_each_token_is_replaced_once(model, fill):
    text = "a very good movie"
    ids = _ids(text)
    exp = whence.explain(model, text, "occlusion", target=2, fill=fill)
    filler = getattr(small.wordpiece(), f"{fill}_token_id")
    for i in range(1, len(ids) - 1):
        expected = _logit(model, ids, 2) - _logit(model, [*ids[:i], filler, *ids[i + 1 :]], 2)
        assert exp.scores[i] == pytest.approx(expected, abs=1e-5)  # float32 logits of size 1, other batch
    assert exp.scores[0] == exp.scores[-1] == 0


def test_deletion(model):
    text = "not a good movie"
    ids = _ids(text)
    exp = whence.explain(model, text, "occlusion", target=0, fill="delete", special=True)
    expected = [_logit(model, ids, 0) - _logit(model, ids[:i] + ids[i + 1 :], 0) for i in range(len(ids))]
    np.testing.assert_allclose(exp.scores, expected, atol=1e-5)


def test_a_word_is_taken_away_whole_and_its_pieces_share(model):
    text = "it was gorgeousx , dully"
    ids = _ids(text)
    exp = whence.explain(model, text, "occlusion", target=1, away="word")
    pieces = [i for i, w in enumerate(exp.word_ids) if w == 2]
    assert len(pieces) == 2
    without = [small.wordpiece().mask_token_id if i in pieces else x for i, x in enumerate(ids)]
    expected = _logit(model, ids, 1) - _logit(model, without, 1)
    assert next(w.score for w in exp.words() if w.text == "gorgeousx") == pytest.approx(expected, abs=1e-5)
    assert exp.scores[pieces[0]] == exp.scores[pieces[1]]


def test_words_of_a_pair_are_told_apart(model):
    exp = whence.explain(model, ("a movie", "a plot"), "occlusion", away="word")
    assert len({float(s) for s, special in zip(exp.scores, exp.special, strict=True) if not special}) == 4


def test_the_target_is_decided_on_the_whole_input(model):
    """Without some token another class may win: the explained class stays."""
    text = "a gorgeous movie"
    predicted = whence.explain(model, text, "occlusion")
    label = model.labels.index(predicted.target)
    fixed = whence.explain(model, text, "occlusion", target=label)
    np.testing.assert_allclose(predicted.scores, fixed.scores, atol=1e-6)


@pytest.mark.parametrize("fill", ["black", "mean", "zero"])
def test_patches(fill):
    image = torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(0))
    exp = whence.explain(small.vit(), image, "occlusion", target=0, fill=fill)
    assert exp.scores.shape == (4, 4)
    dark = image.clone()
    dark[:, 4:8, 8:12] = image.mean((1, 2))[:, None, None] if fill == "mean" else 0.0
    with torch.no_grad():
        whole, without = small.vit()(torch.stack([image, dark])).logits[:, 0].tolist()
    assert exp.scores[1, 2] == pytest.approx(whole - without, abs=1e-5)


def test_source_and_decoder_tokens():
    model = whence.load((small.t5(), small.bytelevel()))
    exp = whence.explain(model, "abc", "occlusion", continuation="de", target=whence.span())
    assert exp.sides.count("source") == 3
    assert np.abs(exp.scores[[s == "source" for s in exp.sides]]).min() > 0


def test_errors_say_what_to_type(model):
    with pytest.raises(OptionError, match=r"unknown fill 'maks'. Did you mean 'mask'"):
        whence.explain(model, "a movie", "occlusion", fill="maks")
    with pytest.raises(OptionError, match="away='letter' is not 'token' or 'word'"):
        whence.explain(model, "a movie", "occlusion", away="letter")
    with pytest.raises(InputError, match="away='token'"):
        whence.explain(model, {"input_ids": torch.tensor([[2, 7, 3]])}, "occlusion", away="word")
    with pytest.raises(InputError, match=r"without a tokenizer.*fill='pad'"):
        whence.explain(small.classifier(), {"input_ids": torch.tensor([[2, 7, 3]])}, "occlusion")
    whence.explain(small.classifier(), {"input_ids": torch.tensor([[2, 7, 3]])}, "occlusion", fill="pad")


def test_deletion_that_would_move_the_target_is_refused():
    tagger = whence.load((small.tagger(), small.wordpiece()))
    with pytest.raises(InputError, match="fill='mask'"):
        whence.explain(tagger, "a movie", "occlusion", fill="delete")
    causal = whence.load((small.llama(), small.bytelevel()))
    with pytest.raises(InputError, match="fill='mask'"):
        whence.explain(causal, "abc", "occlusion", fill="delete", continuation="def")
    whence.explain(causal, "abc", "occlusion", fill="delete")


def test_a_fill_that_is_the_padding_token_does_not_move_the_reading_point():
    """As in GPT-2: pad = unk = eos, and the model reads at the last token that is not padding."""
    tokenizer = copy.deepcopy(small.bytelevel())
    tokenizer.pad_token = tokenizer.unk_token = "<eos>"
    config = transformers.GPT2Config(
        vocab_size=300, n_embd=24, n_layer=2, n_head=4, n_positions=64, pad_token_id=1, eos_token_id=1, num_labels=3
    )
    torch.manual_seed(0)
    module = small.randomised(transformers.GPT2ForSequenceClassification(config))

    def at_last(ids: torch.Tensor) -> float:
        with torch.no_grad():
            return float(module.score(module.transformer(ids).last_hidden_state)[0, -1, 1])

    ids = tokenizer("dull plot", return_tensors="pt")["input_ids"]
    wanted = []
    for n in range(ids.shape[1]):
        changed = ids.clone()
        changed[0, n] = 1
        wanted.append(at_last(ids) - at_last(changed))
    exp = whence.explain((module, tokenizer), "dull plot", "occlusion", 1)
    np.testing.assert_allclose(exp.scores, wanted, atol=1e-5)
    batch = whence.explain((module, tokenizer), ["dull plot", "so"], "occlusion", 1)
    np.testing.assert_allclose(batch[0].scores, wanted, atol=1e-5)
