"""Shuffled and uniform attention on models whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import whence
from tests.diagnostics.models import pooled
from tests.reference import diagnostics as reference
from whence.diagnostics.counterfactual import Counterfactual, permuted, uniform
from whence.diagnostics.subject import Subject

IDS = torch.tensor([[0, 2, 5, 9], [1, 7, 3, 10], [0, 4, 8, 6]])


AGAINST = torch.tensor([[0, 2, 5, 3], [1, 7, 9, 10], [0, 4, 2, 6]])  # the attended word, and three of the other side


def _subject(kind, fused=False, ids=IDS):
    return Subject.of(whence.load(pooled(kind, fused)), {"input_ids": ids})


@pytest.mark.parametrize("fused", [False, True])
def test_where_all_values_are_alike_nothing_changes(fused):
    section = Counterfactual(shuffles=20).ask(_subject("idle", fused))
    assert max(p["tvd"] for p in section.points) < 1e-12
    assert "hardly moves the prediction" in section.text


@pytest.mark.parametrize("fused", [False, True])
def test_where_attention_decides_much_changes(fused):
    section = Counterfactual(shuffles=50).ask(_subject("decides", fused, AGAINST))
    joint = section.where(attention="permuted", layer="all")[0]
    assert joint["tvd"] > 0.9
    assert 0.6 < joint["flips"] < 0.9  # three of four places
    assert "changes the prediction" in section.text


def test_effects_are_those_of_all_permutations():
    """Every distance that was measured is one of the 24 exact ones, and each of those was met."""
    model = pooled("other")
    subject = Subject.of(whence.load(model), {"input_ids": IDS[:1]})
    seen = subject.observe([0])
    change = permuted(torch.Generator().manual_seed(0))
    got, _ = Counterfactual._measured(subject, seen, {0: change}, 600)
    ids = IDS[0]
    exact = reference.permutation_effects(
        model.scores.weight[ids, 0].numpy(), model.values.weight[ids].numpy(), model.head.detach().numpy()
    )
    nearest = np.abs(got[0][:, None] - np.array(exact)[None])
    assert nearest.min(1).max() < 1e-7  # probabilities that were compared in float64
    assert set(nearest.argmin(1)) == set(range(24))
    assert np.median(got) == pytest.approx(np.median(exact), abs=0.05)  # 600 draws of 24 values


def test_permutation_keeps_weights_and_masks():
    allowed = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()
    observed = torch.rand(2, 1, 5, 5).masked_fill(~allowed, 0)
    new = permuted(torch.Generator().manual_seed(1))(observed, allowed)
    assert not new[~allowed].any()
    torch.testing.assert_close(new.sort(-1).values, observed.sort(-1).values)
    assert (new != observed).any()
    flat = uniform(observed, allowed)
    torch.testing.assert_close(flat[0, 0, 2], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0, 0]))


def test_padding_changes_nothing_for_uniform_attention(sentiment):
    """A short text beside a long one, and alone."""
    texts = ["a gem", "an unwatchable and very boring mess of a film"]
    both = Counterfactual(shuffles=1, heads=False).ask(Subject.of(sentiment, texts))
    alone = Counterfactual(shuffles=1, heads=False).ask(Subject.of(sentiment, texts[:1]))
    pick = lambda s: [p["tvd"] for p in s.points if p["kind"] == "uniform" and p["example"] == 0]
    assert pick(both) == pytest.approx(pick(alone), abs=1e-5)  # float32
