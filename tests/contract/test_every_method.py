"""One contract for every registered method on every kind of model."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import whence
from tests import small

TEXTS = ["a gorgeous movie", "not good , but not very bad", "dull"]
IDS = torch.randint(1, 49, (3, 7), generator=torch.Generator().manual_seed(1))


def _images():
    return list(torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(2)))


CASES = {
    "classifier": (lambda: (small.classifier(), small.wordpiece()), lambda: TEXTS),
    "decoder classifier": (lambda: (small.llama_classifier(), small.bytelevel()), lambda: TEXTS),
    "causal": (lambda: (small.llama(), small.bytelevel()), lambda: TEXTS),
    "absolute positions": (lambda: (small.gpt2(), small.bytelevel()), lambda: TEXTS),
    "images": (lambda: small.vit(), _images),
    "by hand": (lambda: small.by_hand(), lambda: {"tokens": IDS}),
}


@pytest.fixture(params=CASES, scope="module")
def case(request):
    make, inputs = CASES[request.param]
    return whence.load(make()), inputs()


def _one(inputs, n):
    return {k: v[n : n + 1] for k, v in inputs.items()} if isinstance(inputs, dict) else inputs[n]


def explain(model, inputs, method, **options):
    try:
        return whence.explain(model, inputs, method, **options)
    except whence.WhenceError as error:
        if "attention" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("method", whence.methods)
def test_batch_equals_loop(case, method):
    """Examples of different lengths, padded into one batch, get the scores they get alone."""
    model, inputs = case
    together = explain(model, inputs, method, batch_tokens=10_000)
    for n, exp in enumerate(together):
        alone = explain(model, _one(inputs, n), method)
        scale = max(1e-6, float(np.abs(alone.scores).max()))
        np.testing.assert_allclose(
            exp.scores, alone.scores, atol=1e-5 * max(1.0, scale), rtol=2e-4
        )  # float32, other kernels
        assert exp.target == alone.target
        assert exp.tokens == alone.tokens


@pytest.mark.parametrize("method", whence.methods)
def test_the_model_is_untouched(case, method):
    model, inputs = case
    module = model.module
    before = copy.deepcopy(module.state_dict())
    flags = [p.requires_grad for p in module.parameters()]
    explain(model, _one(inputs, 0), method)
    assert [p.requires_grad for p in module.parameters()] == flags
    assert all(p.grad is None for p in module.parameters())
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in module.modules())
    assert not module.training


@pytest.mark.parametrize("method", whence.methods)
def test_the_same_twice_and_saved_exactly(case, method, tmp_path):
    model, inputs = case
    first, second = (explain(model, _one(inputs, 1), method) for _ in range(2))
    np.testing.assert_array_equal(first.scores, second.scores)
    for suffix in (".json", ".npz"):
        back = whence.Explanation.load(first.save(tmp_path / f"x{suffix}"))
        np.testing.assert_array_equal(back.scores, first.scores)
        assert back.tokens == first.tokens
        assert back.target == first.target
        assert back.conservation == first.conservation
        assert back.prediction == first.prediction


@pytest.mark.parametrize("method", [m for m in whence.methods if m in whence.recipes])
def test_every_unit_of_relevance_is_accounted_for(case, method):
    model, inputs = case
    for exp in whence.explain(model, inputs, method, receipt="full"):
        # float32 sums of some hundred terms of size one
        assert exp.conservation.error == pytest.approx(0, abs=2e-5)
        assert not exp.conservation.unruled


@pytest.mark.parametrize("method", [m for m in whence.methods if m in whence.recipes])
def test_linear_in_the_target(case, method):
    """Why A rather than B is why A, less why B."""
    model, inputs = case
    if model.task == "text-generation":
        names = (65, 66)
    else:
        names = (0, 1)
    one = _one(inputs, 0)
    a, b = (whence.explain(model, one, method, target=n).scores for n in names)
    both = whence.explain(model, one, method, target=whence.contrast(*names)).scores
    np.testing.assert_allclose(both, a - b, atol=1e-5)
