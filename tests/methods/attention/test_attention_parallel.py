"""Attentions that stand side by side are one layer; models whose tokens meet elsewhere too are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import whence
from tests import small
from whence.errors import ModelError

IDS = torch.randint(1, 49, (1, 6), generator=torch.Generator().manual_seed(0))
MULTIPLIED = ["rollout", "gae", "transformer_attribution"]


class TwoAtOnce(nn.Module):
    """x + A₁v − ½A₂v in each of two layers: both read the same x. With `pooled`, tokens also meet in a convolution."""

    def __init__(self, pooled: bool = False):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(16, 16) for _ in range(5)) for _ in range(2))
        self.mix = nn.Conv1d(16, 16, 3, padding=1) if pooled else None
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        self.maps = []
        for q1, k1, q2, k2, v in self.layers:
            first, second = (self._map(q(x), k(x)) for q, k in ((q1, k1), (q2, k2)))
            self.maps.append((first, second))
            values = v(x).unflatten(-1, (2, 8)).transpose(1, 2)
            x = x + (first @ values - 0.5 * (second @ values)).transpose(1, 2).flatten(2)
            if self.mix is not None:
                x = x + self.mix(x.mT).mT
        return self.head(x[:, 0])

    def _map(self, q: Tensor, k: Tensor) -> Tensor:
        q, k = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in (q, k))
        return torch.softmax(q @ k.mT, -1)


def rolled_out(layers: list[Tensor]) -> np.ndarray:
    """Rows of the product of (A + I), normalised, for maps (head, query, key)."""
    total = torch.eye(6)
    for heads in layers:
        step = heads.mean(0) + torch.eye(6)
        total = (step / step.sum(-1, keepdim=True)) @ total
    return total[0].numpy()


def test_rollout_multiplies_layers_not_attentions():
    module = small.randomised(TwoAtOnce(), 3)
    with torch.no_grad():
        module(IDS)
    maps = module.maps
    wanted = rolled_out([torch.cat([a[0], b[0]]) for a, b in maps])
    exp = whence.explain(module, {"tokens": IDS}, "rollout", 1, row="cls")
    np.testing.assert_allclose(exp.scores, wanted, atol=1e-5)
    one_after_the_other = rolled_out([m[0] for pair in maps for m in pair])
    assert not np.allclose(one_after_the_other, wanted, atol=1e-2)


def test_streamed_and_kept_maps_agree():
    module = small.randomised(TwoAtOnce(), 3)
    made = [whence.explain(module, {"tokens": IDS}, "gae", 1, row="cls", stream=s).scores for s in (True, False)]
    np.testing.assert_allclose(made[0], made[1], atol=1e-5)


@pytest.mark.parametrize("method", MULTIPLIED)
def test_hybrids_are_refused(method):
    module = small.randomised(TwoAtOnce(pooled=True), 3)
    with pytest.raises(ModelError, match="method='lrp'"):
        whence.explain(module, {"tokens": IDS}, method, 1)


@pytest.mark.parametrize("method", ["attention_last", "grad_sam"])
def test_what_looks_at_one_layer_is_not(method):
    module = small.randomised(TwoAtOnce(pooled=True), 3)
    assert whence.explain(module, {"tokens": IDS}, method, 1).scores.shape == (6,)


def test_a_short_input_does_not_settle_where_tokens_meet():
    """Two tokens can't tell whether there is another way; the question is asked again."""
    model = whence.load(small.randomised(TwoAtOnce(pooled=True), 3))
    whence.explain(model, torch.tensor([[3, 4]]), "rollout", 1)
    with pytest.raises(ModelError, match="meet elsewhere"):
        whence.explain(model, torch.tensor([[3, 4, 5, 6, 7]]), "rollout", 1)
