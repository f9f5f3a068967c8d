"""The random control."""

from __future__ import annotations

import numpy as np
import torch

import whence
from tests import small


def test_scores_depend_on_content_and_seed_alone():
    model = whence.load((small.classifier(), small.wordpiece()))
    first, other = whence.explain(model, ["a good movie", "a bad movie"], "random")
    assert not np.array_equal(first.scores, other.scores)
    np.testing.assert_array_equal(whence.explain(model, "a good movie", "random", target=2).scores, first.scores)
    assert not np.array_equal(whence.explain(model, "a good movie", "random", seed=1).scores, first.scores)


def test_scores_are_standard_normal():
    image = torch.zeros(3, 16, 16)
    draws = np.stack([whence.explain(small.vit(), image, "random", seed=s).scores for s in range(40)])
    assert draws.shape == (40, 4, 4)
    assert abs(draws.mean()) < 0.16  # four standard errors of 640 draws
    assert abs(draws.std() - 1) < 0.12


def test_the_global_generators_are_left_alone():
    np.random.seed(5)
    torch.manual_seed(5)
    expected = np.random.rand(), torch.rand(1)
    np.random.seed(5)
    torch.manual_seed(5)
    whence.explain("sentiment", "a gem", "random")
    whence.explain("sentiment", "a gem", "smooth_grad", samples=2)
    assert (np.random.rand(), torch.rand(1)) == expected
