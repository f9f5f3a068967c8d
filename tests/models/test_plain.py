"""Modules that transformers does not know."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import whence
from tests import small
from whence.errors import InputError, ModelError


def test_ids_under_any_name():
    exp = whence.explain(small.by_hand(), {"tokens": torch.tensor([[3, 4, 5]])})
    assert exp.tokens == ("3", "4", "5")
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)
    assert set(exp.conservation.sinks) >= {"bias", "position"}


def test_one_tensor_without_a_name():
    named = whence.explain(small.by_hand(), {"tokens": torch.tensor([[3, 4, 5]])})
    bare = whence.explain(small.by_hand(), torch.tensor([[3, 4, 5]]))
    np.testing.assert_array_equal(bare.scores, named.scores)


def test_float_inputs_get_a_score_per_token():
    net = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    exp = whence.explain(net, torch.randn(1, 5, 8), target=lambda out: out[:, 0, 0])
    assert exp.scores.shape == (5,)
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)


def test_a_model_without_embedding_lookup():
    class OneHot(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(5, 2)

        def forward(self, ids):
            return self.layer(torch.nn.functional.one_hot(ids, 5).float()).sum(1)

    with pytest.raises(ModelError, match="never looked its token ids up"):
        whence.explain(OneHot().eval(), torch.tensor([[1, 2]]))


def test_text_is_refused():
    with pytest.raises(InputError, match="takes tensors"):
        whence.explain(small.by_hand(), "a good movie")


def test_a_target_that_is_no_function_of_the_input():
    with pytest.raises(ModelError, match="does not depend"):
        whence.explain(small.by_hand(), torch.tensor([[1, 2]]), target=lambda out: torch.zeros(1))
