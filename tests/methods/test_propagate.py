"""Propagation methods: receipts of batches."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
import transformers
from torch import nn

import whence
from tests import small
from tests.methods.attention.eager import one
from whence.methods.propagate import Propagate, unit_of, widest
from zoo.build import build


@pytest.mark.parametrize("model_type", ["mixtral", "jetmoe", "deepseek_v3", "gpt_oss", "xlnet", "bert"])
def test_the_receipt_of_each_is_the_one_it_has_alone(model_type):
    """Experts sort the tokens of all examples by where they go; each sink is still that of its example."""
    specimen = build("sequence-classification", model_type)
    for n, exp in enumerate(whence.explain(specimen.model, dict(specimen.inputs), "exact", 1)):
        alone = whence.explain(specimen.model, one(specimen.inputs, n), "exact", 1)
        scale = max(map(abs, (*alone.conservation.sinks.values(), 1.0)))
        np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-4 * max(1.0, np.abs(alone.scores).max()))
        for kind in {*exp.conservation.sinks, *alone.conservation.sinks}:
            held, wanted = (e.conservation.sinks.get(kind, 0.0) for e in (exp, alone))
            assert held == pytest.approx(wanted, abs=1e-4 * scale)
        assert exp.conservation.error == pytest.approx(0, abs=1e-4 * scale)


@pytest.mark.parametrize("at", ["embedding", "position"])
@pytest.mark.parametrize("lengths", [(4, 4), (5, 3), (5, 1)])
def test_positions_belong_to_their_own_tokens(at, lengths):
    """An encoder's and a decoder's: scaling one of the two tables moves the scores of that side alone."""
    config = transformers.BartConfig(
        vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=20,
    )  # fmt: skip
    module = small.randomised(transformers.BartForConditionalGeneration(config))
    ids = {
        "input_ids": torch.arange(5, 5 + lengths[0])[None],
        "decoder_input_ids": torch.arange(9, 9 + lengths[1])[None],
    }
    target = lambda outputs: outputs.logits[:, -1, 7]
    exp = whence.explain(module, ids, target=target, at=at)
    word = whence.explain(module, ids, target=target)
    share = exp.scores - (word.scores if at == "embedding" else 0)
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    assert float(share.sum()) == pytest.approx(word.conservation.sinks["position"], abs=1e-4)
    with torch.no_grad():
        module.model.decoder.embed_positions.weight.zero_()
    other = whence.explain(module, ids, target=target, at="position")
    np.testing.assert_allclose(other.scores[lengths[0] :], 0, atol=1e-6)
    assert np.abs(other.scores[: lengths[0]]).max() > 1e-6


class SharedToken(torch.nn.Module):
    """A class token is joined to every frame of every film, and read from the first rows: all have the same one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.head = torch.nn.Linear(4, 6), torch.nn.Linear(6, 2)
        self.token, self.place = torch.nn.Parameter(torch.randn(1, 1, 6)), torch.nn.Parameter(torch.randn(1, 2, 6))

    def forward(self, x):
        films, frames = x.shape[:2]
        rows = self.layer(x).flatten(0, 1)[:, None]
        rows = torch.cat([self.token.expand(len(rows), -1, -1), rows], 1) + self.place
        token, rest = rows[:films, 0], rows[:, 1].view(films, frames, -1)
        return self.head(token * rest.relu().mean(1) + token)


def test_what_is_read_from_the_rows_of_another_is_booked_to_its_own():
    module, x = SharedToken().eval(), torch.randn(3, 4, 4)
    for n, exp in enumerate(whence.explain(module, x, "exact", 1)):
        alone = whence.explain(module, x[n : n + 1], "exact", 1)
        assert exp.conservation.error == pytest.approx(0, abs=1e-5)
        assert exp.conservation.sinks == pytest.approx(alone.conservation.sinks, abs=1e-5)


def test_what_rounds_too_much_is_looked_into_alone(monkeypatch):
    """A row of a batch, and not all the others for its sake."""
    specimen = build("sequence-classification", "bert")
    model = whence.load(specimen.model.to(torch.bfloat16))
    inputs = {name: value[[0, 0, 1, 1]] for name, value in specimen.inputs.items()}
    there_and_back = [whence.contrast(0, 1), whence.contrast(1, 0)] * 2  # so that errors cancel
    made = whence.explain(model, inputs, "exact", there_and_back)
    errors = [abs(exp.conservation.error) / exp.conservation.tolerance for exp in made]
    more, less = max(errors), min(errors)
    assert more > 1.1 * less
    module = sys.modules[Propagate.__module__]
    monkeypatch.setattr(module, "ROUNDING", module.ROUNDING * (more + less) / 2)
    runs = []
    monkeypatch.setattr(model, "forward", lambda given: runs.append(len(given["input_ids"])) or model.module(**given))
    whence.explain(model, inputs, "exact", there_and_back)
    assert runs == [4, 1, 1]


def test_the_longest_sum_of_a_model():
    """Experts in one tensor, and positions, are no kernels of a convolution."""

    def found(module):
        return widest(whence.load(module.eval()))

    class Stacked(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts, self.places = nn.Parameter(torch.zeros(8, 12, 20)), nn.Parameter(torch.zeros(1, 9, 16))

        def forward(self, x):
            return x

    assert found(nn.Sequential(nn.Conv2d(3, 5, 4), nn.Linear(30, 2))) == 48
    assert found(Stacked()) == 20


def test_a_gpu_adds_one_after_the_other(monkeypatch):
    """In float32, as long sums round; in half precision the result rounds more than its sum."""
    model = whence.load(build("sequence-classification", "bert").model)
    plain = unit_of(model)
    monkeypatch.setattr(type(model), "device", torch.device("cuda"))
    widest = 64  # the inner size of its MLPs
    assert unit_of(model) == pytest.approx(plain * (widest / 2) ** 0.5)
    model.module.bfloat16()
    half = unit_of(model)
    monkeypatch.undo()
    assert half == unit_of(model)
