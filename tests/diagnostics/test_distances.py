"""JSD, TVD and Kendall's τ against versions written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import diagnostics as reference
from whence.diagnostics.attention_agreement import kendall
from whence.diagnostics.distances import MOST, jensen_shannon, total_variation

rows = st.integers(2, 6).flatmap(lambda n: st.tuples(*[st.lists(st.floats(0, 5), min_size=n, max_size=n)] * 2))


def _normalised(x: list[float]) -> np.ndarray:
    x = np.array(x) + (np.arange(len(x)) == 0) * 1e-3
    return x / x.sum()


@given(rows)
@settings(max_examples=60, deadline=None)
def test_distances_are_those_of_the_papers(pair):
    p, q = map(_normalised, pair)
    a, b = torch.from_numpy(p), torch.from_numpy(q)
    assert total_variation(a, b).item() == pytest.approx(reference.tvd(p, q), abs=1e-12)
    assert jensen_shannon(a, b).item() == pytest.approx(reference.jsd(p, q), abs=1e-12)
    assert -1e-12 <= jensen_shannon(a, b).item() <= MOST + 1e-12


def test_the_largest_jsd_is_log_two_and_gradients_are_finite_at_zero():
    p = torch.tensor([1.0, 0.0], requires_grad=True)
    far = jensen_shannon(p, torch.tensor([0.0, 1.0]))
    assert far.item() == pytest.approx(0.6931, abs=1e-4)
    (grad,) = torch.autograd.grad(far, p)
    assert torch.isfinite(grad).all()


@given(st.integers(3, 9).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)))
@settings(max_examples=60, deadline=None)
def test_kendall_counts_pairs(pair):
    a, b = (np.array(x, dtype=float) for x in pair)
    tau, p = kendall(a, b)
    if len(set(a)) < 2 or len(set(b)) < 2:
        assert np.isnan(tau)
        assert np.isnan(p)
    else:
        assert tau == pytest.approx(reference.kendall_tau_b(a, b), abs=1e-12)
        assert 0 <= p <= 1
