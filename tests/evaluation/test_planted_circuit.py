"""A circuit that was set by hand, and who finds it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import whence
from training.planted import CIRCUIT, Induction, question
from whence.evaluation.circuits import auroc, circuit_of, cmd, cpr, faithfulness
from whence.methods.patching import TwoRuns
from whence.models.loading import load

MODEL = Induction(sharp=4.0)


def asked(count):
    draw = random.Random(0)
    return [question(draw) for _ in range(count)]


def found(method, count=4):
    patched = [
        whence.patch(MODEL, q.clean, q.corrupt, target=whence.contrast(q.right, q.wrong), method=method)
        for q in asked(count)
    ]
    return np.mean([one.importance for one in patched], axis=0)


def test_the_model_says_what_stood_behind_the_word():
    for q in asked(20):
        assert int(MODEL(q.clean).argmax()) == q.right
        assert int((q.clean != q.corrupt).sum()) == 1


@pytest.mark.parametrize("method", ["activation", "relp", "attribution", "integrated_gradients"])
def test_both_heads_are_found(method):
    assert auroc(found(method), CIRCUIT) == 1


def test_a_head_that_acts_through_keys_alone_is_nothing_where_attention_is_held_constant():
    held, free = found("exact"), found("relp")
    assert abs(held[0, 1]) < 0.01 * held[1, 2]
    assert free[0, 1] > 0.5 * free[1, 2]


def test_the_circuit_alone_does_what_the_model_does():
    q = asked(1)[0]
    model = load(MODEL)
    pair = [model.encode(ids)[0][0] for ids in (q.clean, q.corrupt)]
    runs = TwoRuns(model, *pair, whence.contrast(q.right, q.wrong), kinds=["heads"])
    shares = np.arange(CIRCUIT.size + 1) / CIRCUIT.size
    circuits = torch.from_numpy(np.stack([circuit_of(CIRCUIT.astype(float), share) for share in shares]))
    scores = runs.scored({"heads": ~circuits})
    curve = [faithfulness(score, scores[0], scores[-1]) for score in scores]
    assert scores[-1] == pytest.approx(runs.seen["clean"].target, abs=1e-5)
    # Noise of the other heads is 2 % of a word in every number that they write.
    assert curve[1] == pytest.approx(0, abs=0.1)
    assert curve[2:] == pytest.approx([1] * 7, abs=0.1)
    assert cpr(shares, curve) == pytest.approx(13 / 16, abs=0.05)
    assert cmd(shares, curve) == pytest.approx(3 / 16, abs=0.05)
