"""Concept vectors against the slow float64 version."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import tcav as reference
from whence.concepts import cav
from whence.errors import InputError


def _sets(features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.1, 10, features)  # features in very different units
    concept = (rng.normal(size=(14, features)) + 0.7) * scale
    counter = rng.normal(size=(11, features)) * scale
    return concept.astype(np.float32), counter.astype(np.float32)


@pytest.mark.parametrize("features", [5, 25, 80])
def test_direction_is_that_of_logistic_regression_in_all_features(features):
    concept, counter = _sets(features)
    everything = np.concatenate([concept, counter])
    space = cav.Space(everything)
    found = space.direction(space.fit(np.arange(14), np.arange(14, 25)))
    expected = reference.cav(concept, counter, everything)
    # sklearn stops at a gradient of 1e-4, the reference at float precision
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-9)  # float64


def test_large_layers_are_handled_in_parts(monkeypatch):
    concept, counter = _sets(30)
    everything, gradients = np.concatenate([concept, counter]), np.random.default_rng(1).normal(size=(3, 30))
    rows = np.arange(14), np.arange(14, 25)
    whole = cav.Space(everything)
    monkeypatch.setattr(cav, "CHUNK", 7)
    parts = cav.Space(everything)
    ours, theirs = (s.answers(gradients) @ s.fit(*rows).weights for s in (parts, whole))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)  # sums in another order


@pytest.mark.parametrize("standardise", [True, False])
def test_derivatives_are_taken_in_the_space_of_the_activations(standardise):
    concept, counter = _sets(20)
    space = cav.Space(np.concatenate([concept, counter]), standardise=standardise)
    vector = space.fit(np.arange(14), np.arange(14, 25))
    gradients = np.random.default_rng(1).normal(size=(6, 20))
    expected = gradients @ space.direction(vector)
    np.testing.assert_allclose(space.answers(gradients) @ vector.weights, expected, rtol=1e-8)  # float64


def test_direction_points_to_the_concept():
    concept, counter = _sets(20)
    space = cav.Space(np.concatenate([concept, counter]))
    forward = space.direction(space.fit(np.arange(14), np.arange(14, 25)))
    back = space.direction(space.fit(np.arange(14, 25), np.arange(14)))
    assert (concept.mean(0) - counter.mean(0)) @ forward > 0
    np.testing.assert_allclose(forward, -back, atol=2e-4)  # sklearn's tolerance


def test_constant_features_have_no_say():
    concept, counter = _sets(10)
    for side in (concept, counter):
        side[:, 3] = 5.0
    concept[0, 3] += 1e-6
    space = cav.Space(np.concatenate([concept, counter]))
    assert abs(space.direction(space.fit(np.arange(14), np.arange(14, 25)))[3]) < 1e-12


def test_held_out_accuracy_is_high_for_a_concept_and_at_chance_without():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(80, 30)).astype(np.float32)
    halves = np.arange(40), np.arange(40, 80)
    chance = np.mean([cav.Space(values).cross_validated(*halves, folds=5, seed=n) for n in range(5)])
    assert 0.3 < chance < 0.7  # 80 examples: standard deviation 0.056
    values[:40, 0] += 6
    assert cav.Space(values).cross_validated(*halves, folds=5, seed=0) > 0.95


def test_score_is_the_share_above_zero():
    derivatives = [0.5, -1.0, 0.0, 2.0]
    assert cav.tcav_score(np.array(derivatives)) == reference.tcav(derivatives) == 0.5


def test_one_class_and_equal_activations_are_refused():
    values = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    with pytest.raises(InputError, match="both sides"):
        cav.Space(values).fit(np.arange(6), np.arange(0))
    with pytest.raises(InputError, match="same activations"):
        cav.Space(np.ones((6, 4), np.float32))
