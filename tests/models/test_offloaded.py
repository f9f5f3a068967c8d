"""Models whose weights accelerate brings when they are needed: the adapter asks where they compute."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest
import torch
from torch import nn

import whence
from tests import small
from whence.core import recording


class Brought:
    """What accelerate's hook does: weights are on no device but while their module runs."""

    execution_device = torch.device("cpu")

    def __init__(self, module: nn.Module):
        self.held = {name: p.data for name, p in module.named_parameters(recurse=False)}
        self.leave(module)
        module.register_forward_pre_hook(lambda m, args: self.enter(m))
        module.register_forward_hook(lambda m, args, out: self.leave(m))

    def enter(self, module: nn.Module) -> None:
        for name, value in self.held.items():
            moved = nn.Parameter(value, requires_grad=False).to(torch.float64).to(value.dtype)
            assert type(moved) is nn.Parameter or not torch.overrides._get_current_function_mode_stack()
            setattr(module, name, nn.Parameter(value, requires_grad=False))

    def leave(self, module: nn.Module) -> None:
        for name, value in self.held.items():
            setattr(module, name, nn.Parameter(value.to("meta"), requires_grad=False))


def offloaded() -> nn.Module:
    module = copy.deepcopy(small.llama())
    for part in list(module.modules()):
        if list(part.parameters(recurse=False)):
            part._hf_hook = Brought(part)
    assert {p.device.type for p in module.parameters()} == {"meta"}
    return module


@pytest.mark.parametrize("method", ["lrp", "gi", "gae", "rollout", "integrated_gradients"])
def test_offloaded_weights_are_where_they_run(method):
    reader = small.bytelevel()
    found, wanted = (whence.explain((m, reader), "a movie", method) for m in (offloaded(), small.llama()))
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-6 * np.abs(wanted.scores).max(), rtol=1e-5)
    assert found.target == wanted.target


def test_they_are_not_recorded(monkeypatch):
    monkeypatch.setattr(recording, "DEVICES", ("cpu",))
    assert whence.load(small.llama()).replays
    assert not whence.load(offloaded()).replays


def test_spreading_a_model_needs_accelerate(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    small.llama().save_pretrained(tmp_path)
    with pytest.raises(whence.WhenceError, match="pip install accelerate"):
        whence.load(str(tmp_path), device="auto")
