"""Integrated gradients."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import whence
from tests import small
from tests.methods.games import Additive, Interacting
from tests.reference import perturbation as reference
from whence.errors import InputError, OptionError
from whence.methods import gradient

TEXTS = ["a gorgeous movie", "not good , but not very bad", "dull"]
FLOATS = torch.tensor([[1.5, -2.0, 0.3, 0.7, 1.1]], dtype=torch.float64)


@pytest.fixture(scope="module")
def exact():
    """A classifier in float64, so that only the integral is approximate; always the same one."""
    torch.manual_seed(0)
    return whence.load((small.classifier.__wrapped__().double(), small.wordpiece()))


def test_of_a_linear_model_one_step_is_exact():
    module = Additive().eval()
    tokens = torch.tensor([[4, 7, 7, 2]])
    exp = whence.explain(module, {"tokens": tokens}, "integrated_gradients", target=1, steps=1)
    np.testing.assert_allclose(exp.scores, module.by_hand(tokens, 1)[0], rtol=1e-6)
    assert exp.conservation.sinks["baseline"] == pytest.approx(float(module.head.bias[1].detach()))
    assert exp.conservation.error == pytest.approx(0, abs=1e-6)


def test_by_hand():
    """x₀ x₁ on the path from 0: each gets half of the product."""
    exp = whence.explain(Interacting().eval(), FLOATS, "integrated_gradients", target=0, steps=4)
    np.testing.assert_allclose(exp.scores[:3], [-1.5, -1.5, 0.6], rtol=1e-6)


@pytest.mark.parametrize("baseline", ["pad", "mask", "zero"])
def test_reference(exact, baseline):
    module, tokenizer = exact.module, exact.tokenizer
    ids = tokenizer(TEXTS[1], return_tensors="pt")["input_ids"]
    words = module.get_input_embeddings()
    x = words(ids).detach()
    start = x.clone()
    start[:, 1:-1] = 0.0 if baseline == "zero" else words.weight[getattr(tokenizer, f"{baseline}_token_id")].detach()
    expected = reference.integrated_gradients(
        lambda x: module(inputs_embeds=x).logits[0, 2], x, start, [(k + 0.5) / 8 for k in range(8)]
    )[0]
    exp = whence.explain(exact, TEXTS[1], "integrated_gradients", target=2, steps=8, baseline=baseline)
    np.testing.assert_allclose(exp.scores, expected, rtol=1e-5, atol=1e-7)
    with torch.no_grad():
        assert exp.conservation.sinks["baseline"] == pytest.approx(float(module(inputs_embeds=start).logits[0, 2]))


@pytest.mark.parametrize("rule", ["midpoint", "trapezoid"])
def test_completeness(exact, rule):
    """The gap falls with steps²: twice the steps, about a quarter of it."""
    gaps = [
        abs(whence.explain(exact, TEXTS[1], "integrated_gradients", steps=s, rule=rule).conservation.error)
        for s in (32, 64, 128)
    ]
    assert gaps[2] < 0.3 * gaps[1] < 0.1 * gaps[0]
    assert gaps[2] < 1e-3


def test_special_tokens_stay_unless_asked(exact):
    still, moved = (whence.explain(exact, TEXTS[0], "integrated_gradients", special=s) for s in (False, True))
    assert still.scores[0] == still.scores[-1] == 0
    assert abs(moved.scores[0]) > 0


def test_small_chunks_change_nothing(exact, monkeypatch):
    whole = whence.explain(exact, TEXTS, "integrated_gradients", steps=5)
    monkeypatch.setattr(gradient, "budget_of", lambda *_: 25)
    for exp, again in zip(whole, whence.explain(exact, TEXTS, "integrated_gradients", steps=5), strict=True):
        np.testing.assert_allclose(exp.scores, again.scores, rtol=1e-5, atol=1e-9)
        assert exp.conservation.error == pytest.approx(again.conservation.error)


@pytest.mark.parametrize("method", ["integrated_gradients", "smooth_grad"])
def test_padding_on_the_left(method):
    tokenizer = copy.deepcopy(small.bytelevel())
    tokenizer.padding_side = "left"
    model = whence.load((small.llama_classifier(), tokenizer))
    together = whence.explain(model, TEXTS, method, batch_tokens=10_000)
    for text, exp in zip(TEXTS, together, strict=True):
        alone = whence.explain(model, text, method)
        np.testing.assert_allclose(exp.scores, alone.scores, rtol=1e-3, atol=1e-5)  # float32, other positions


def test_source_and_decoder_tokens():
    torch.manual_seed(0)
    model = whence.load((small.t5.__wrapped__().double(), small.bytelevel()))
    few, many = (
        whence.explain(
            model, "abc", "integrated_gradients", continuation="de", steps=s, target=whence.span()
        ).conservation
        for s in (64, 512)
    )
    assert few.inputs != 0
    assert abs(many.error) < 1e-3 * abs(many.inputs)
    assert abs(many.error) < 0.1 * abs(few.error)


def test_images(digits):
    image = torch.rand(1, 28, 28, generator=torch.Generator().manual_seed(0))
    for baseline in ("pad", "black", "mean", "zero"):
        exp = whence.explain(digits, image, "integrated_gradients", baseline=baseline, steps=64)
        assert exp.conservation.relative_error < 0.01
        assert exp.is_image


def test_the_default_on_the_bundled_model(sentiment):
    exp = whence.explain(sentiment, "a gorgeous, witty, seductive movie", "integrated_gradients")
    assert exp.conservation.relative_error < 1e-2


def test_errors_say_what_to_type(exact):
    with pytest.raises(OptionError, match="unknown fill 'nothing'"):
        whence.explain(exact, TEXTS[0], "integrated_gradients", baseline="nothing")
    with pytest.raises(OptionError, match="rule='simpson' is not"):
        whence.explain(exact, TEXTS[0], "integrated_gradients", rule="simpson")
    with pytest.raises(OptionError, match="steps=0 is not"):
        whence.explain(exact, TEXTS[0], "integrated_gradients", steps=0)
    with pytest.raises(OptionError, match="too few"):
        whence.explain(exact, TEXTS[0], "integrated_gradients", steps=1, rule="trapezoid")
    ids = {"input_ids": torch.tensor([[2, 7, 3]])}
    with pytest.raises(InputError, match="baseline='pad'"):
        whence.explain(small.classifier(), ids, "integrated_gradients", baseline="mask")
