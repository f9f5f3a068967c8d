"""ContextCite's linear model and its measures, against closed forms and numbers made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.language.contextcite import every_subset, lds, logit, subsets, surrogate, top_drop


def test_logit():
    p = np.array([1e-9, 0.2, 0.5, 0.999])
    assert logit(np.log(p)) == pytest.approx(np.log(p / (1 - p)), rel=1e-9)


def test_logit_where_p_is_no_float():
    """log(1 − p) is 0 in float64 once p is below 1e-17; a certain answer has a logit that is large, not infinite."""
    assert logit(np.array([-500.0])) == pytest.approx([-500.0])
    assert np.isfinite(logit(np.array([0.0]))).all()


def test_every_subset_is_there_once():
    made = every_subset(3)
    assert made.shape == (8, 3)
    assert len({tuple(mask) for mask in made.tolist()}) == 8


def test_fewer_ablations_are_the_first_of_more():
    few, many = (subsets(np.random.default_rng([4, 0]), n, 20) for n in (32, 256))
    assert (many[:32] == few).all()
    assert 0.45 < many.mean() < 0.55


def test_surrogate_is_a_soft_threshold_where_masks_are_orthogonal():
    """Over all subsets standardised columns are orthonormal: w_j = sign(c_j) max(|c_j| − α, 0), c_j = x_j·y/n."""
    kept, tokens, alpha = every_subset(3), 4, 0.05
    effects = np.array([3.0, -0.4, 0.3])
    y = kept @ effects - 2.0
    log_p = -np.log1p(np.exp(-y))
    correlations = effects * 0.5 / tokens  # the standard deviation of each column is ½
    expected = np.sign(correlations) * np.maximum(np.abs(correlations) - alpha, 0) / 0.5 * tokens
    found = surrogate(kept, log_p, tokens, alpha)
    assert found == pytest.approx(expected, abs=1e-3)  # coordinate descent stops at a duality gap of 1e-4
    assert found[1] == found[2] == 0  # too small for the penalty


def test_surrogate_of_a_source_that_was_always_kept():
    kept = every_subset(3)
    kept[:, 1] = True
    found = surrogate(kept, np.log(np.where(kept[:, 0], 0.9, 0.1)), 1)
    assert found[1] == 0
    assert found[0] == pytest.approx(2 * np.log(9) - 2 * 0.01, abs=1e-3)  # α of the standardised weight is 2α here


@pytest.mark.parametrize(("scores", "expected"), [([3.0, 2.0, 1.0], 1.0), ([-3.0, -2.0, -1.0], -1.0), ([0.0] * 3, 0.0)])
def test_lds(scores, expected):
    kept = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
    log_p = np.log([0.9, 0.5, 0.2, 0.1])
    assert lds(np.array(scores), kept, log_p) == pytest.approx(expected)


def test_lds_with_ties():
    """Ranks 1.5, 1.5, 3 against 1, 2, 3: 1.5 / √(1.5 · 2)."""
    kept = np.eye(3, dtype=bool)
    assert lds(np.array([0.1, 0.1, 0.7]), kept, np.log([0.1, 0.2, 0.3])) == pytest.approx(1.5 / np.sqrt(3))


def test_top_drop():
    assert top_drop(np.array([0.1, 5.0, -2.0, 5.0]), 1).tolist() == [True, False, True, True]
    assert top_drop(np.array([0.1, 5.0, -2.0, 5.0]), 3).tolist() == [False, False, True, False]
