"""However a model is run or was loaded, it is explained as the plain model is."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import whence
from tests import small

MODELS = {"bert": (small.classifier, small.wordpiece), "llama": (small.llama, small.bytelevel)}
"""Parameters that are multiplied, added, looked up; with biases and without."""


def checkpointed(model, **options):
    model = copy.deepcopy(model)
    model.gradient_checkpointing_enable(**options)
    return model


def reentrant(model):
    return checkpointed(model, gradient_checkpointing_kwargs={"use_reentrant": True})


def loaded_for_inference(model):
    with torch.inference_mode():
        made = type(model)(model.config).eval()
        made.load_state_dict(model.state_dict())
    assert next(made.parameters()).is_inference()
    return made


def compiled_in_place(model):
    model = copy.deepcopy(model)
    model.compile(backend="eager")
    return model


def compiled_forward(model):
    model = copy.deepcopy(model)
    model.forward = torch.compile(model.forward, backend="eager")
    return model


def frozen(model):
    return copy.deepcopy(model).requires_grad_(False)


WAYS = {
    "checkpointed": checkpointed,
    "reentrant": reentrant,
    "inference": loaded_for_inference,
    "frozen": frozen,
    "parallel": lambda model: torch.nn.DataParallel(copy.deepcopy(model)),
    "compiled": lambda model: torch.compile(copy.deepcopy(model), backend="eager"),
    "compiled in place": compiled_in_place,
    "compiled forward": compiled_forward,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", ["exact", "gi", "transformer_attribution", "integrated_gradients"])
def test_as_the_plain_model(way, kind, method):
    build, reader = MODELS[kind]
    found, wanted = (
        whence.explain((model, reader()), "a good movie", method) for model in (WAYS[way](build()), build())
    )
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-6 * np.abs(wanted.scores).max())
    assert found.target_score == pytest.approx(wanted.target_score, abs=1e-6)
    if wanted.conservation is not None:
        assert found.conservation.unruled == wanted.conservation.unruled
        assert found.conservation.sinks == pytest.approx(wanted.conservation.sinks, abs=1e-6)
