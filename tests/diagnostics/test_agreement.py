"""Rank correlation of attention with gradients and leave-one-out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import whence
from tests.reference import diagnostics as reference
from whence.diagnostics.attention_agreement import AttentionAgreement
from whence.diagnostics.subject import Subject
from whence.errors import ModelError

TEXTS = ["a gorgeous, witty, seductive movie", "an unwatchable and very boring mess of a film", "dull"]


@pytest.fixture(scope="module")
def answered(sentiment):
    return AttentionAgreement().ask(Subject.of(sentiment, TEXTS))


def test_tau_by_hand_with_special_tokens_left_out(sentiment, answered):
    """One head of one example, every number computed another way."""
    text, layer, head = TEXTS[1], 1, 3
    attention = whence.attention(sentiment, text)[layer][head, 0]
    gradient = whence.explain(sentiment, text, method="ah").scores
    ids = sentiment.tokenizer(text, return_tensors="pt")["input_ids"]

    def shares(i):
        with torch.no_grad():
            return sentiment.module(input_ids=i).logits.double().softmax(-1)[0].numpy()

    ordinary = range(1, ids.shape[1] - 1)  # without [CLS] and [SEP]
    left_out = []
    for t in ordinary:
        masked = ids.clone()
        masked[0, t] = sentiment.tokenizer.mask_token_id
        left_out.append(reference.tvd(shares(masked), shares(ids)))
    kept = list(ordinary)
    expected = {
        "gradient": reference.kendall_tau_b(attention[kept], np.abs(gradient[kept])),
        "leave-one-out": reference.kendall_tau_b(attention[kept], left_out),
    }
    found = {
        p["against"]: p["tau"]
        for p in answered.points
        if (p["what"], p["layer"], p["head"], p["example"]) == ("head", layer, head, 1)
    }
    assert found == pytest.approx(expected, abs=1e-9)  # the same ranks give the same number


def test_short_examples_are_left_out_and_said_so(answered):
    assert {p["example"] for p in answered.points} == {0, 1}
    assert any("fewer than 3 ordinary tokens" in note for note in answered.notes)


def test_named_scores_are_compared_and_failures_are_notes(sentiment):
    subject = Subject.of(sentiment, TEXTS[:2])

    def lengths(examples):
        return [np.arange(len(e.tokens), dtype=float) for e in examples]

    def broken(examples):
        raise ModelError("not for this model")

    section = AttentionAgreement().ask(subject, scorers={"order": lengths, "broken": broken})
    assert {r["against"] for r in section.where(what="order")} == {"gradient", "leave-one-out"}
    assert any("broken left out: not for this model" in note for note in section.notes)


def test_a_row_per_head_layer_and_measure(answered, sentiment):
    heads = [r for r in answered.rows if isinstance(r["head"], int)]
    config = sentiment.config
    assert len(heads) == config.num_hidden_layers * config.num_attention_heads * 2
    assert all(-1 <= r["tau"] <= 1 and 0 <= r["significant"] <= 1 for r in answered.rows)
    assert "does not show that it is" in answered.text
