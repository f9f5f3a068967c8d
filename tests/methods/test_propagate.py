"""Propagation methods: receipts of batches."""

from __future__ import annotations

import numpy as np
import pytest

import whence
from tests.methods.attention.eager import one
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
