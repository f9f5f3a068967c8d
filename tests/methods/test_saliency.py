"""Saliency."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import whence
from tests import small
from tests.methods.games import Additive
from tests.reference import perturbation as reference
from whence.errors import OptionError

TOKENS = torch.tensor([[4, 7, 2]])


@pytest.mark.parametrize(("norm", "size"), [("l2", 2), ("l1", 1)])
def test_of_a_linear_model_it_is_the_norm_of_the_weights(norm, size):
    module = Additive().eval()
    exp = whence.explain(module, {"tokens": TOKENS}, "saliency", target=1, norm=norm)
    np.testing.assert_allclose(exp.scores, [float(module.head.weight[1].detach().norm(p=size))] * 3, rtol=1e-6)


def test_signed_sum():
    module = Additive().eval()
    exp = whence.explain(module, {"tokens": TOKENS}, "saliency", target=0, norm="sum")
    np.testing.assert_allclose(exp.scores, [float(module.head.weight[0].detach().sum())] * 3, rtol=1e-6)


def test_reference():
    module = copy.deepcopy(small.classifier()).double()
    ids = small.wordpiece()("a very good movie", return_tensors="pt")["input_ids"]
    x = module.get_input_embeddings()(ids).detach()
    expected = reference.saliency(lambda x: module(inputs_embeds=x).logits[0, 2], x)[0]
    exp = whence.explain((module, small.wordpiece()), "a very good movie", "saliency", target=2)
    np.testing.assert_allclose(exp.scores, expected, rtol=1e-5)


def test_the_norm_of_a_patch_is_over_its_pixels():
    image = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (grad,) = torch.autograd.grad(small.vit()(image).logits[0, 1], image)
    exp = whence.explain(small.vit(), image[0].detach(), "saliency", target=1)
    assert exp.scores[1, 2] == pytest.approx(float(grad[0, :, 4:8, 8:12].norm()), rel=1e-4)


def test_unknown_norm():
    with pytest.raises(OptionError, match="norm='l3' is not 'l2', 'l1' or 'sum'"):
        whence.explain("sentiment", "a gem", "saliency", norm="l3")
