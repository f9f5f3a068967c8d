"""Several targets of one input: one forward pass, and what each would get by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import whence
from tests import small
from whence.methods import propagate
from whence.methods.explaining import as_method, explain_examples


@pytest.fixture(autouse=True)
def _short_inputs(monkeypatch):
    monkeypatch.setattr(propagate, "WORTH_SHARING", 1)


MODELS = {
    "encoder": lambda: ((small.classifier(), small.wordpiece()), "a gorgeous movie", [0, 1, 2]),
    "decoder": lambda: ((small.llama(), small.bytelevel()), "a movie", [5, 6, whence.contrast(7, 8)]),
    "images": lambda: (small.vit(), torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1)), [0, 1]),
}


@contextmanager
def passes(module: torch.nn.Module) -> Iterator[list[int]]:
    seen: list[int] = []
    with module.register_forward_hook(lambda *_: seen.append(1)):
        yield seen


@pytest.mark.parametrize("options", [{}, {"receipt": "full"}, {"at": "embedding"}], ids=str)
@pytest.mark.parametrize("method", ["exact", "attn_lrp", "gi", "gim"])
@pytest.mark.parametrize("name", MODELS)
def test_each_target_has_its_own(name, method, options):
    if "at" in options and name != "encoder":
        pytest.skip("has no positions that are added")
    made, inputs, targets = MODELS[name]()
    model = whence.load(made)
    (example,), _ = model.encode(inputs)
    with passes(model.module) as seen:
        together = explain_examples(model, as_method(method, **options), [example] * len(targets), targets)
    assert len(seen) == 1
    for target, found in zip(targets, together, strict=True):
        alone = whence.explain(model, inputs, method, target, **options)
        alone = alone if isinstance(alone, whence.Explanation) else alone[0]
        np.testing.assert_allclose(found.scores, alone.scores, atol=1e-6 * np.abs(alone.scores).max(), rtol=1e-5)
        assert (found.target, found.prediction, found.stamp) == (alone.target, alone.prediction, alone.stamp)
        assert found.target_score == pytest.approx(alone.target_score)
        sinks = alone.conservation.sinks
        assert found.conservation.sinks == pytest.approx(sinks, abs=1e-6 * alone.conservation.scale)


def test_comparing_classes_runs_the_model_once_for_each_method():
    model = whence.load((small.classifier(), small.wordpiece()))
    with passes(model.module) as seen:
        found = list(whence.compare(model, "a gorgeous movie", ["gi", "lrp"], target=[0, 1, 2]))
    assert len(seen) == 2
    targets = dict.fromkeys(e.target for e in found)
    assert [(e.method, e.target) for e in found] == [(m, t) for t in targets for m in ("gi", "lrp")]


def test_functions_as_targets_are_run_apart():
    model = whence.load((small.classifier(), small.wordpiece()))
    (example,), _ = model.encode("a gorgeous movie")
    targets = [lambda o: o.logits[:, 0], lambda o: o.logits[:, 1]]
    for n, found in enumerate(explain_examples(model, as_method("lrp"), [example] * 2, targets)):
        np.testing.assert_allclose(found.scores, whence.explain(model, "a gorgeous movie", target=n).scores, rtol=1e-4)
