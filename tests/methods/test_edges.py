"""Edges between heads and MLPs: against a model that adds up edge by edge, and what their estimates sum to."""

from __future__ import annotations

import copy
import random
import sys

import numpy as np
import pytest
import torch

import whence
from tests import small
from tests.reference import edges as written_out
from training.planted import EDGES as PLANTED
from training.planted import Induction, question
from whence.errors import InputError
from whence.evaluation.circuits import auroc, circuit_of
from whence.methods.edges import Edges
from whence.methods.patching import TwoRuns
from whence.models.loading import load

CLEAN, CORRUPT = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 5, 3, 4]])
TEXTS = "a witty movie is good", "a dull film is bad"
MODELS = {"llama": small.llama, "gpt2": small.gpt2, "bert": small.classifier}


@pytest.fixture
def stream():
    torch.manual_seed(0)
    return written_out.Stream().double().eval()


def table(found, values):
    """By edge, as the reference has it."""
    return {
        (a, b): values[n, m]
        for n, a in enumerate(found.rows)
        for m, b in enumerate(found.columns)
        if np.isfinite(values[n, m])
    }


def runs_of(model, texts, target, **options):
    adapter = load(model)
    return TwoRuns(adapter, *(adapter.encode(text)[0][0] for text in texts), target, kinds=["edges"], **options)


def test_estimates_and_truth_are_those_of_a_model_that_adds_up_edge_by_edge(stream):
    found = whence.patch(stream, CLEAN, CORRUPT, target=0, at="edges", method="attribution", truth=True)
    estimate, truth = written_out.edges(stream, CLEAN, CORRUPT)
    own = table(found, found.effects), table(found, found.truth)
    assert set(own[0]) == set(own[1]) == set(truth)
    # scores are reported in float32
    assert own[0] == pytest.approx(estimate, abs=1e-6)
    assert own[1] == pytest.approx(truth, abs=1e-6)
    assert max(abs(v) for v in truth.values()) > 1e-3


def test_circuits_of_edges_are_those_of_a_model_that_adds_up_edge_by_edge(stream):
    edges = Edges(runs_of(stream, (CLEAN, CORRUPT), 0))
    draw = np.random.default_rng(0)
    keep = draw.random((5, len(edges.sources), len(edges.sinks))) < 0.6
    for scored, own in zip(edges.scored(keep), keep, strict=True):
        kept = {(a.name, b.name) for n, a in enumerate(edges.sources) for m, b in enumerate(edges.sinks) if own[n, m]}
        assert scored == pytest.approx(written_out.circuit(stream, CLEAN, CORRUPT, kept), abs=1e-6)


class Straight(written_out.Layer):
    """Without norms, attention that looks everywhere alike, and an MLP whose units are always on: all is linear."""

    def __init__(self) -> None:
        super().__init__()
        self.first = self.second = torch.nn.Identity()
        with torch.no_grad():
            for layer in (self.query, self.key):
                layer.weight.zero_()
            self.up.bias.fill_(100)

    def forward(self, x):
        normed = self.first(x)
        q, k, v = (layer(normed).unflatten(-1, (2, 3)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        x = x + self.out(torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(torch.relu(self.up(x)))


@pytest.mark.parametrize("into", ["clean", "corrupt"])
@pytest.mark.parametrize("method", ["partway", "relp", "attribution", "integrated_gradients"])
def test_estimates_are_the_truth_in_a_linear_model(stream, method, into):
    torch.manual_seed(1)
    stream.layers = torch.nn.ModuleList(Straight() for _ in range(2)).double()
    stream.norm = torch.nn.Identity()
    found = whence.patch(
        stream.eval(), CLEAN, CORRUPT, target=0, at="edges", method=method, truth=True, into=into, steps=2
    )  # fmt: skip
    np.testing.assert_allclose(found.effects, found.truth, atol=2e-5)  # scores in float32, units of a hundred
    assert np.nanmax(np.abs(found.truth)) > 0.01


@pytest.mark.parametrize("method", ["partway", "relp", "attribution", "exact", "integrated_gradients"])
@pytest.mark.parametrize("name", MODELS)
def test_the_edges_that_leave_a_node_sum_to_what_the_node_does(name, method):
    model = (copy.deepcopy(MODELS[name]()).double().eval(), small.wordpiece())
    target = 1 if name == "bert" else whence.contrast(7, 9)
    edges, heads, mlps = whence.patch(
        model, *TEXTS, target=target, at=["edges", "heads", "mlps"], method=method, steps=2
    )
    nodes = dict(zip(edges.rows, edges.by_layer, strict=True))
    for layer in range(2):
        for head in range(4):
            # rotations of Llama are computed in float32
            assert nodes[f"layer {layer} head {head}"] == pytest.approx(heads.effects[layer, head], abs=1e-7)
        assert nodes[f"layer {layer} mlp"] == pytest.approx(mlps.effects[layer].sum(), abs=1e-7)


def test_all_edges_are_the_model_and_none_is_the_other_run():
    runs = runs_of((copy.deepcopy(small.llama()).double().eval(), small.wordpiece()), TEXTS, whence.contrast(7, 9))
    edges = Edges(runs)
    shape = len(edges.sources), len(edges.sinks)
    nothing, everything = edges.scored(np.stack([np.zeros(shape, dtype=bool), np.ones(shape, dtype=bool)]))
    assert nothing == pytest.approx(runs.seen["corrupt"].target, abs=1e-6)
    assert everything == pytest.approx(runs.seen["clean"].target, abs=1e-6)


def test_the_planted_edges_are_found_and_do_it_alone():
    model, draw = Induction(sharp=4.0), random.Random(0)
    found, curves = [], []
    for _ in range(4):
        q = question(draw)
        runs = runs_of(model, (q.clean, q.corrupt), whence.contrast(q.right, q.wrong))
        edges = Edges(runs)
        found.append(-edges.estimated())
        assert [node.name for node in edges.sources] == [*PLANTED.rows]
        scores = edges.scored(np.stack([~PLANTED.planted, PLANTED.planted | True, PLANTED.planted]))
        curves.append((scores - runs.seen["corrupt"].target) / (runs.here.target - runs.seen["corrupt"].target))
    assert auroc(np.mean(found, axis=0), PLANTED.planted) == 1
    without, whole, alone = np.mean(curves, axis=0)
    assert whole == pytest.approx(1, abs=1e-4)
    assert alone == pytest.approx(1, abs=0.1)  # noise of the other heads is 2 % of a word in all that they write
    assert without < 0.5
    assert circuit_of(np.mean(found, axis=0), 3 / np.isfinite(found[0]).sum()).sum() == 3


def test_the_truth_of_the_largest_estimates_alone():
    model = (copy.deepcopy(small.llama()).double().eval(), small.wordpiece())
    whole = whence.patch(model, *TEXTS, target=7, at=["edges", "heads"], truth=True)
    few = whence.patch(model, *TEXTS, target=7, at=["edges", "heads"], truth=3)
    for all_, some in zip(whole, few, strict=True):
        known = np.isfinite(some.truth)
        assert known.sum() == 3
        assert [tuple(cell) for cell in np.argwhere(known)] == sorted(all_.strongest(3))
        np.testing.assert_allclose(some.truth[known], all_.truth[known], atol=1e-9)
        assert "true patching of the 3 largest" in str(some)
        assert str(some).count("(true ") == 3


def test_saved_shown_and_read_again(tmp_path):
    found = whence.patch((small.llama(), small.wordpiece()), *TEXTS, target=7, at="edges")
    again = whence.Patching.load(found.save(tmp_path / "edges.json"))
    np.testing.assert_array_equal(again.effects, found.effects)
    assert again.to_dict() == found.to_dict()
    name, effect = found.top(1)[0]
    assert f"{effect:+.4f}  {name}" in found.save(tmp_path / "edges.txt").read_text(encoding="utf-8")
    assert name in found.save(tmp_path / "edges.html").read_text(encoding="utf-8")
    assert "→ target" in found.save(tmp_path / "edges.svg").read_text(encoding="utf-8")


def test_too_many_edges_for_the_truth_of_all(monkeypatch):
    monkeypatch.setattr(sys.modules["whence.verbs.patch"], "MOST_EDGES", 10)
    with pytest.raises(InputError, match="truth=100"):
        whence.patch((small.llama(), small.wordpiece()), *TEXTS, target=7, at="edges", truth=True)
