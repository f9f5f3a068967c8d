"""SmoothGrad."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import whence
from tests import small
from tests.methods.games import Additive
from whence.errors import OptionError
from whence.methods import gradient

TEXTS = ["a gorgeous movie", "not good , but not very bad", "dull"]


@pytest.fixture(scope="module")
def model():
    return whence.load((small.classifier(), small.wordpiece()))


def test_noise_does_not_matter_to_a_linear_model():
    module = Additive().eval()
    tokens = torch.tensor([[4, 7, 2]])
    exp = whence.explain(module, {"tokens": tokens}, "smooth_grad", target=1, noise=0.5)
    np.testing.assert_allclose(exp.scores, module.by_hand(tokens, 1)[0], rtol=1e-5)


@pytest.mark.parametrize(("of", "twin"), [("gradient_input", "gi"), ("gradient", "saliency")])
def test_without_noise_it_is_the_plain_method(model, of, twin):
    exp = whence.explain(model, TEXTS[1], "smooth_grad", noise=0.0, samples=2, of=of)
    np.testing.assert_allclose(exp.scores, whence.explain(model, TEXTS[1], twin).scores, rtol=1e-4, atol=1e-6)


def test_squared_is_the_mean_of_squares(model):
    plain = whence.explain(model, TEXTS[0], "smooth_grad", noise=0.0, samples=3, of="squared").scores
    np.testing.assert_allclose(plain, whence.explain(model, TEXTS[0], "saliency").scores ** 2, rtol=1e-4)


def test_the_size_of_the_noise():
    """f = Σ x³ has the expected gradient 3 (x² + σ²): the average shows σ = noise · range."""

    class Cubes(torch.nn.Module):
        def forward(self, x):
            return (x**3).sum(1, keepdim=True)

    x = torch.tensor([[1.0, -1.0, 0.5, 0.0]], dtype=torch.float64)
    exp = whence.explain(Cubes().eval(), x, "smooth_grad", target=0, samples=4000, noise=0.2)
    sigma = 0.2 * 2.0
    # the mean of 4000 draws of 3 (x + ε)²: standard error about 3 · 2 σ / √4000 = 0.04; five of them
    np.testing.assert_allclose(exp.scores, (x * 3 * (x**2 + sigma**2))[0], atol=0.2)
    assert abs(exp.scores[0] - 3.48) < abs(exp.scores[0] - 3.0)


def test_small_chunks_change_nothing(model, monkeypatch):
    whole = whence.explain(model, TEXTS, "smooth_grad", samples=3)
    monkeypatch.setattr(gradient, "budget_of", lambda *_: 20)
    for exp, again in zip(whole, whence.explain(model, TEXTS, "smooth_grad", samples=3), strict=True):
        np.testing.assert_allclose(exp.scores, again.scores, rtol=1e-4, atol=1e-5)


def test_another_seed_gives_other_noise(model):
    one, two = (whence.explain(model, TEXTS[0], "smooth_grad", seed=s).scores for s in (0, 1))
    assert not np.allclose(one, two)


def test_errors(model):
    with pytest.raises(OptionError, match="'gradient_input', 'gradient' or 'squared'"):
        whence.explain(model, TEXTS[0], "smooth_grad", of="cubed")
    with pytest.raises(OptionError, match="samples=0 is not a whole number of at least 1"):
        whence.explain(model, TEXTS[0], "smooth_grad", samples=0)
