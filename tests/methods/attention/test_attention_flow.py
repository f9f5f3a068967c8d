"""Attention flow equals networkx on layered graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import attention_methods as slow
from whence.methods.attention.attention_method import LayerMap
from whence.methods.attention.flow import max_flow_to_inputs
from whence.methods.explaining import as_method

GRAPHS = settings(max_examples=60, deadline=None)
SIZES = {"layers": st.integers(1, 4), "length": st.integers(1, 5), "seed": st.integers(0, 2**31)}


def softmax_maps(
    layers: int, length: int, seed: int, *, causal: bool = False, sharpness: float = 1.0
) -> list[np.ndarray]:
    scores = np.random.default_rng(seed).normal(size=(layers, length, length)) * sharpness
    if causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return list(weights / weights.sum(-1, keepdims=True))


def assert_flows(capacities: list[np.ndarray], row: int) -> None:
    wanted = [slow.max_flow(capacities, row, sink) for sink in range(len(capacities[0]))]
    np.testing.assert_allclose(max_flow_to_inputs(capacities, row), wanted, rtol=0, atol=1e-9)


@given(**SIZES, sharpness=st.sampled_from([0.3, 1.0, 4.0]), causal=st.booleans(), data=st.data())
@GRAPHS
def test_random_graphs(layers, length, seed, sharpness, causal, data):
    maps = softmax_maps(layers, length, seed, causal=causal, sharpness=sharpness)
    residual = data.draw(st.sampled_from(["none", "add_identity", "add_identity_then_normalise"]))
    assert_flows([slow.skip_connection(m, residual) for m in maps], data.draw(st.integers(0, length - 1)))


@given(**SIZES)
@GRAPHS
def test_random_capacities_with_missing_edges(layers, length, seed):
    """Not attention at all: capacities from a few round values (many minimum cuts at once), a third of them zero."""
    draw = np.random.default_rng(seed)
    maps = draw.choice([0.0, 0.0, 0.1, 0.25, 0.5, 1.5], size=(layers, length, length))
    assert_flows(list(maps), int(draw.integers(length)))


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("residual", ["none", "add_identity", "add_identity_then_normalise"])
def test_uniform_attention_has_many_minimum_cuts(layers, residual):
    uniform = slow.skip_connection(np.full((5, 5), 1 / 5), residual)
    assert_flows([uniform] * layers, 2)


def test_identity_lets_only_the_token_itself_through():
    np.testing.assert_array_equal(max_flow_to_inputs([np.eye(3)] * 3, 1), [0, 1, 0])


def test_capacities_of_two_do_not_overflow():
    """A causal model's first token attends to itself alone; with + I that edge holds 2 (a bug once: 2³¹ in 32 bits)."""
    first = np.array([[2.0, 0.0], [0.5, 1.5]])
    for row in (0, 1):
        assert_flows([first, first], row)
    np.testing.assert_array_equal(max_flow_to_inputs([first, first], 0), [2, 0])


@pytest.mark.parametrize("row", ["cls", "mean", "column_sum"])
def test_flow_of_nothing_is_nothing(row):
    """Heads that look at different places have a minimum of zero everywhere."""
    heads = torch.stack([torch.eye(2), 1 - torch.eye(2)])
    made = as_method("attention_flow", fusion="min", residual="none")
    assert made.token_scores([LayerMap(heads)] * 2, [0, 1], row).tolist() == [0, 0]
