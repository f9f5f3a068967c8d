"""The test of significance against scipy and against the formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.reference.tcav import welch
from whence.concepts.significance import bonferroni, interval, p_value

RNG = np.random.default_rng(0)
PAIRS = [
    (RNG.uniform(0.7, 1, 30).tolist(), RNG.uniform(0, 1, 30).tolist()),
    (RNG.uniform(0.4, 0.6, 10).tolist(), RNG.uniform(0, 1, 25).tolist()),
    ([1.0] * 12, RNG.uniform(0, 1, 12).tolist()),
]


@pytest.mark.filterwarnings("ignore:Precision loss")
@pytest.mark.parametrize(("scores", "chance"), PAIRS)
def test_p_value_is_welch(scores, chance):
    t, freedom = welch(scores, chance)
    assert p_value(scores, chance) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-9)  # float64
    assert p_value(scores, chance) == pytest.approx(stats.ttest_ind(scores, chance, equal_var=False).pvalue, rel=1e-9)
    mirrored = p_value([1 - s for s in scores], [1 - s for s in chance])
    assert mirrored == pytest.approx(p_value(scores, chance), rel=1e-9)


def test_without_any_spread():
    assert p_value([1.0] * 5, [1.0] * 5) == 1.0
    assert p_value([1.0] * 5, [0.0] * 5) == 0.0
    assert p_value([0.1 + 0.2] * 5, [0.3] * 5) == 1.0


def test_shared_examples_widen_the_spread():
    scores, chance = PAIRS[0]
    inflated = np.var(scores, ddof=1) * (1 / 30 + 0.5 / 0.5), np.var(chance, ddof=1) / 30
    t = (np.mean(scores) - np.mean(chance)) / np.sqrt(sum(inflated))
    freedom = sum(inflated) ** 2 / sum(v**2 / 29 for v in inflated)
    assert p_value(scores, chance, 0.5) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-9)
    assert interval(scores, 0.5)[0] < interval(scores)[0]


def test_resampling_noise_is_not_a_discovery():
    """Both sides are noise, and runs draw halves of one fixed set: the plain test finds something, ours rarely."""
    rng, plain, ours = np.random.default_rng(0), [], []
    for _ in range(200):
        fixed = rng.normal(size=24)
        scores = [rng.permutation(fixed)[:12].mean() for _ in range(30)]
        chance = rng.normal(size=(30, 12)).mean(1)
        plain.append(p_value(scores, chance) < 0.05)
        ours.append(p_value(scores, chance, 0.5) < 0.05)
    assert np.mean(plain) > 0.3
    assert np.mean(ours) < 0.1


def test_interval_is_students():
    scores = [0.6, 0.7, 0.8, 0.75, 0.5]
    low, high = stats.t.interval(0.95, 4, np.mean(scores), stats.sem(scores))
    assert interval(scores) == pytest.approx((low, high), rel=1e-9)
    assert interval([1.0, 0.9, 1.0])[1] == 1.0
    assert interval([0.5]) == (0.5, 0.5)


def test_bonferroni():
    assert bonferroni(0.01, 12) == pytest.approx(0.12)
    assert bonferroni(0.3, 12) == 1.0


def test_chance_against_chance_is_rarely_significant():
    rng = np.random.default_rng(1)
    found = [p_value(rng.uniform(size=20), rng.uniform(size=20)) < 0.05 for _ in range(400)]
    assert 0.02 < np.mean(found) < 0.09  # 5% ± 3.7 standard deviations
