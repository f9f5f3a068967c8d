"""Areas and ranks by hand."""

from __future__ import annotations

import numpy as np
import pytest

from whence.errors import InputError
from whence.evaluation.circuits import SHARES, auroc, circuit_of, cmd, cpr, faithfulness


def test_faithfulness_is_nothing_for_nothing_and_one_for_all():
    assert [faithfulness(m, -2.0, 6.0) for m in (-2.0, 0.0, 6.0, 10.0)] == [0.0, 0.25, 1.0, 1.5]
    with pytest.raises(InputError, match="same score"):
        faithfulness(1.0, 2.0, 2.0)


def test_areas_by_hand():
    shares, found = [0.0, 0.25, 1.0], [0.0, 0.8, 1.2]
    # trapezoids: .25 · .4 + .75 · 1 = .85; distances 1, .2, .2: .25 · .6 + .75 · .2 = .3
    assert cpr(shares, found) == pytest.approx(0.85)
    assert cmd(shares, found) == pytest.approx(0.3)


def test_a_perfect_circuit_has_distance_zero_and_ratio_one():
    assert cmd(SHARES, [1.0] * len(SHARES)) == 0
    assert cpr(SHARES, [1.0] * len(SHARES)) == pytest.approx(1)


@pytest.mark.parametrize("shares", [[0.0], [0.0, 0.0], [0.5, 0.1]])
def test_sizes_must_rise(shares):
    with pytest.raises(InputError, match="rise"):
        cpr(shares, [1.0] * len(shares))


def test_the_circuit_is_what_ranks_highest():
    scores = np.array([[0.1, 5.0, -9.0], [np.nan, 2.0, 1.0]])
    assert circuit_of(scores, 0).sum() == 0
    assert np.argwhere(circuit_of(scores, 0.4)).tolist() == [[0, 1], [1, 1]]
    assert circuit_of(scores, 1).sum() == 5


def test_auroc_by_hand():
    planted = np.array([True, True, False, False])
    assert auroc(np.array([4.0, 1.0, 2.0, 1.0]), planted) == pytest.approx((2 + 0 + 0.5) / 4)
    assert auroc(-np.array([4.0, 3.0, 2.0, 1.0]), planted) == 0
    with pytest.raises(InputError, match="inside"):
        auroc(np.ones(3), np.ones(3, dtype=bool))
