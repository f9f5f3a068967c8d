"""What a model is at one moment: equal as long as it would compute the same, and no longer."""

from __future__ import annotations

import threading
from types import MethodType

import numpy as np
import pytest
import torch
from torch import nn

import whence
from tests import small
from whence.core.memory import held, planned
from whence.models.attending import in_the_open
from whence.models.findings import Findings
from whence.models.state import state_of
from zoo.build import build


@pytest.fixture
def module():
    return build("sequence-classification", "bert").model


class Leaving(nn.Module):
    """Leaves something behind in every pass, as many models do."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(9, 4), nn.Linear(4, 2)
        self.seen, self.maps = None, ()

    def forward(self, ids):
        self.seen = self.table(ids)
        self.maps = (self.seen.softmax(-1),)
        return self.out(self.seen.sum(1))


def half_weight(module):
    module.classifier.weight.data = module.classifier.weight.data.half()


def set_weight(module):
    module.classifier.weight = nn.Parameter(module.classifier.weight.clone())


def write(layer):
    with torch.no_grad():
        layer.weight.mul_(2)


def write_weight(module):
    write(module.classifier)


def add_buffer(module):
    module.register_buffer("more", torch.zeros(1))


def exchange(module):
    """Two parts of one kind, in each other's place."""
    layer = module.bert.encoder.layer
    layer[0], layer[1] = layer[1], layer[0]


def add_part(module):
    module.more = nn.Identity()


def own_forward(module):
    module.classifier.forward = MethodType(lambda self, x: x @ self.weight.T, module.classifier)


CHANGES = {
    "a weight of another type": half_weight,
    "another weight": set_weight,
    "a weight that is written": write_weight,
    "another buffer": add_buffer,
    "parts in another order": exchange,
    "another part": add_part,
    "a forward of its own": own_forward,
    "a flag": lambda module: setattr(module.bert, "active_adapters", ["one"]),
    "an entry of a dictionary": lambda module: module.scaling.update(default=3.0),
    "an entry of a list": lambda module: module.adapters.append("two"),
    "the configuration": lambda module: setattr(module.config, "pad_token_id", 7),
    "within the configuration": lambda module: module.config.id2label.update({0: "another"}),
    "a hook": lambda module: module.bert.register_forward_hook(lambda *given: None),
    "a hook before": lambda module: module.bert.register_forward_pre_hook(lambda *given: None),
    "a hook on the way back": lambda module: module.bert.register_full_backward_hook(lambda *given: None),
    "a hook before the way back": lambda module: module.bert.register_full_backward_pre_hook(lambda *given: None),
    "a number of NumPy's": lambda module: setattr(module, "factor", np.float64(3)),
    "a range": lambda module: setattr(module, "steps", range(3)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(module, change):
    module.scaling, module.adapters = {"default": 1.0}, ["one"]
    module.factor, module.steps = np.float64(2), range(2)
    before = state_of(module)
    assert before == state_of(module)
    module.factor = module.steps = None  # what comes next may lie in their place
    change(module)
    assert before.held != state_of(module).held


class Own(nn.Parameter):
    """A weight of a kind of its own."""


def test_a_number_of_numpy_s_beside_anything(module):
    module.factor = np.float64("nan")
    before = state_of(module)
    assert before == state_of(module)
    for other in ([1.0, 2.0], np.float32("nan"), np.ones(3)):
        module.factor = other
        assert before.held != state_of(module).held


@pytest.mark.parametrize("change", [lambda layer: layer.double(), write], ids=["moved", "written"])
def test_weights_of_a_kind_of_their_own(change):
    layer = nn.Linear(4, 2, bias=False).eval()
    layer.weight = Own(layer.weight.detach())
    before = state_of(layer)
    assert before == state_of(layer)
    change(layer)
    assert type(layer.weight) is Own
    assert before.held != state_of(layer).held


def test_tables_that_are_not_saved_may_be_made_anew():
    """As a model does that makes its angles longer with its texts."""
    module = nn.Linear(4, 2).eval()
    module.register_buffer("angles", torch.zeros(3), persistent=False)
    before = state_of(module)
    module.register_buffer("angles", torch.zeros(5), persistent=False)
    assert before.held == state_of(module).held
    assert before != state_of(module)


def test_a_class_whose_forward_is_replaced(module, monkeypatch):
    before = state_of(module)
    monkeypatch.setattr(type(module), "forward", lambda self, **given: None)
    assert before.held != state_of(module).held


def test_an_object_in_the_place_of_another(module):
    module.helper = threading.Event()
    before = state_of(module)
    module.helper = threading.Event()
    assert before.held != state_of(module).held


def test_there_and_back_is_the_same(module):
    module.scale = 1.0
    before = state_of(module)
    module.scale = 2.0
    handle = module.register_forward_hook(lambda *given: None)
    assert before.held != state_of(module).held
    module.scale = 1.0
    handle.remove()
    assert before == state_of(module)


@pytest.mark.parametrize("method", ["lrp", "gae", "integrated_gradients"])
def test_an_explanation_changes_nothing(module, method):
    before = state_of(module)
    whence.explain(module, {"input_ids": torch.randint(5, 90, (2, 9))}, method)
    assert before == state_of(module)


@pytest.mark.parametrize("plain", ["sdpa", "eager"])
def test_others_at_work_change_nothing(module, plain, monkeypatch):
    """Hooks of ours, and attention that torch does for a while, are of whoever put them there."""
    monkeypatch.setattr(type(module), "_supports_sdpa", plain == "sdpa")
    module.config._attn_implementation = "flash_attention_2"
    before = state_of(module)
    with in_the_open(module), planned("recompute"), held(module):
        assert module.config._attn_implementation == plain
        assert any(part._forward_hooks for part in module.modules())
        assert before == state_of(module)


@pytest.mark.parametrize("what", ["hook", "pre-hook", "backward hook", "hook on all modules", "forward"])
def test_functions_of_others_are_named(what, module):
    """A pass that is played would not call them."""
    assert not state_of(module).open
    if what == "forward":
        own_forward(module)
    else:
        add = {
            "hook": module.bert.register_forward_hook,
            "pre-hook": module.bert.register_forward_pre_hook,
            "backward hook": module.bert.register_full_backward_hook,
            "hook on all modules": nn.modules.module.register_module_forward_hook,
        }[what]
        handle = add(lambda *given: None)
    assert state_of(module).open
    if what != "forward":
        handle.remove()
        assert not state_of(module).open


def test_what_a_pass_leaves_behind_is_not_what_the_model_is():
    module = Leaving().eval()
    module(torch.tensor([[1, 2]]))
    before = state_of(module)
    module(torch.tensor([[1, 2]]))
    after = state_of(module)
    assert before.held == after.held
    assert before != after


def test_what_was_found_out_holds_after_a_pass_and_recordings_do_not(module):
    """Facts are kept where only what a pass leaves behind is new; a recording has its own."""
    findings, module = Findings(), Leaving().eval()
    first = findings.at(state_of(module))
    first.facts["padding"] = "changes nothing"
    assert findings.at(state_of(module)) is first
    module(torch.tensor([[1, 2]]))
    second = findings.at(state_of(module))
    assert second.facts["padding"] == "changes nothing"
    assert second.number != first.number
    module.out.bias = None
    assert "padding" not in findings.at(state_of(module)).facts


def test_a_few_states_are_remembered(module):
    findings = Findings()
    known = {}
    for flag in (0, 1, 2, 3, 0, 4, 0, 1):
        module.flag = flag
        found = findings.at(state_of(module))
        if flag in known and flag == 0:
            assert found is known[flag]
        if flag in known and flag == 1:  # four came after it
            assert found is not known[flag]
        known[flag] = found


@pytest.mark.filterwarnings("ignore:.*jit.*:DeprecationWarning")
def test_a_compiled_part():
    module = nn.Sequential(torch.jit.script(nn.Linear(4, 4)), nn.Linear(4, 2)).eval()
    before = state_of(module)
    assert before == state_of(module)
    with torch.no_grad():
        module[0].weight.zero_()
    assert before != state_of(module)


def test_weights_made_in_inference_mode():
    with torch.inference_mode():
        module = nn.Linear(3, 2).eval()
    assert state_of(module) == state_of(module)


def test_a_copy_of_an_adapter_looks_for_itself():
    model = whence.load((small.classifier(), small.wordpiece()))
    whence.explain(model, ["a good film", "a bad plot is a bad film"])
    assert model.known.facts
    other = model.around(small.classifier())
    assert not other.known.facts
    assert model.known.facts
