"""The furthest attention at the same prediction, on models whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import whence
from tests.diagnostics.models import Pooled, pooled
from tests.reference import diagnostics as reference
from whence.diagnostics.adversarial import Adversarial
from whence.diagnostics.distances import MOST
from whence.diagnostics.subject import Subject

IDS = torch.tensor([[0, 2, 5, 9], [1, 7, 3, 10]])
FAST = Adversarial(steps=150, rate=0.1, starts=3)


def _subject(model, ids=IDS):
    return Subject.of(whence.load(model), {"input_ids": ids})


@pytest.mark.parametrize("fused", [False, True])
def test_where_attention_does_not_matter_it_can_be_anything(fused):
    """JSD is convex, so the furthest attention is all on one token: the best of those is known."""
    model = pooled("idle", fused)
    section = replace(FAST, starts=8).ask(_subject(model))  # each start ends at some token, not always the best
    assert section.rows[0]["found"] == 1
    assert section.rows[0]["tvd"] < 1e-6
    for point in section.points:
        alpha = reference.softmax(model.scores.weight[IDS[point["example"]], 0].numpy())
        furthest = max(reference.jsd(one, alpha) for one in np.eye(4))
        assert 0.95 * furthest < point["jsd"] <= furthest + 1e-6


def test_where_two_values_differ_weights_are_fixed_by_the_prediction():
    """α v₁ + (1 − α) v₂ has one solution for α."""
    scores = torch.tensor([0.3, 0.0], dtype=torch.float64)
    values = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    head = torch.tensor([[2.0, -2.0]], dtype=torch.float64)
    row = FAST.ask(_subject(Pooled(scores, values, head).eval(), torch.tensor([[0, 1]]))).rows[0]
    assert row["jsd"] < 0.001  # |Δŷ| ≤ .01 allows |Δα| of about .006
    assert row["tvd"] <= 0.01


def test_a_twin_with_the_same_value_can_take_the_weight():
    scores = torch.tensor([5.0, -5.0, 0.0], dtype=torch.float64)
    values = torch.tensor([[1.0], [1.0], [-1.0]], dtype=torch.float64)
    head = torch.tensor([[2.0, -2.0]], dtype=torch.float64)
    row = FAST.ask(_subject(Pooled(scores, values, head).eval(), torch.tensor([[0, 1, 2]]))).rows[0]
    assert row["jsd"] > 0.5


def test_what_is_found_keeps_the_prediction_in_a_real_model(sentiment):
    subject = Subject.of(sentiment, ["a gorgeous, witty, seductive movie", "so dull"])
    section = Adversarial(steps=12, rate=0.1, starts=2).ask(subject)
    assert all(p["tvd"] <= 0.01 and 0 <= p["jsd"] <= MOST for p in section.points)
    assert [r["layer"] for r in section.rows] == ["all", 0, 1, 2]
    assert section.rows[0]["jsd"] > 0.1


def test_diversity_is_the_mean_over_pairs():
    """The shifts used in the loss hold every pair of starts once, times two."""
    from whence.diagnostics.adversarial import _Search
    from whence.diagnostics.distances import jensen_shannon, negentropy

    for starts in (2, 3, 4, 5):
        subject = _subject(pooled("other"))
        options = Adversarial(starts=starts)
        search = _Search(options, subject, subject.observe([0, 1]), [0], torch.Generator().manual_seed(0))
        m = torch.softmax(search.logits[0], -1).detach()
        pairs = [jensen_shannon(m[:, i], m[:, j]) for i in range(starts) for j in range(starts)]
        expected = torch.stack(pairs).mean(0).sum()
        torch.testing.assert_close(search._diversity([m], [negentropy(m)]), expected, rtol=1e-5, atol=1e-6)
