"""What was found out about a module stays as long as the module."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import whence
from whence.core import recording
from whence.core.recording import Tape
from whence.models import findings, padding
from whence.models.state import state_of
from zoo.build import build


@pytest.fixture
def asked(monkeypatch):
    """How often a model was asked what may stand beside what."""
    seen = []
    measured = padding.measured
    monkeypatch.setattr(padding, "measured", lambda *given: seen.append(1) or measured(*given))
    return seen


def tokenizer():
    return whence.load("sentiment").tokenizer


def ways(module):
    return findings._known[module][1]


def ids(rows: int = 3) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(5, 90, (rows, 9))}


def test_a_module_that_is_passed_again_is_not_asked_again(asked):
    module = build("sequence-classification", "bert").model
    for _ in range(3):
        whence.explain(module, ids())
    assert len(asked) == 1


def test_another_way_to_read_it_is_another_matter(asked):
    module, first, second = build("sequence-classification", "bert").model, *(tokenizer() for _ in range(2))
    for given in (module, (module, first), (module, second), (module, first)):
        whence.explain(given, ids())
    assert len(asked) == 3


def test_other_parts_are_another_model(asked):
    module = build("sequence-classification", "bert").model
    whence.explain(module, ids())
    module.classifier = nn.Linear(module.classifier.in_features, 3)
    whence.explain(module.eval(), ids())
    assert len(asked) == 2


def test_another_configuration_is_another_model(asked):
    module = build("sequence-classification", "gpt2").model
    for token in (0, 0, 5):  # where a text ends
        module.config.pad_token_id = token
        whence.explain(module, ids())
    assert len(asked) == 2


def test_a_tokenizer_that_is_gone_is_forgotten():
    module = build("sequence-classification", "bert").model
    for _ in range(5):
        whence.load((module, tokenizer()))
        gc.collect()
    assert len(ways(module)) == 1


def test_names_of_classes_are_no_other_way_to_read_it():
    module = build("sequence-classification", "bert").model
    for n in range(3):
        whence.load(module, labels=[f"{n}", "b", "c"])
    assert len(ways(module)) == 1


def test_a_state_that_is_forgotten_takes_its_own_recordings_alone():
    found, module = findings.Findings(), build("sequence-classification", "bert").model
    numbers = []
    for flag in range(findings.STATES + 1):
        module.flag = flag
        numbers.append(found.at(state_of(module)).number)
        found.recordings.keep((numbers[-1], "all else"), 1, None)
        found.recordings.due((numbers[-1], "something else"), 1)
    assert [held[0] for held, _ in found.recordings._made] == numbers[1:]
    assert [held[0] for held in found.recordings._wanted] == numbers[1:]


def test_what_a_pass_made_of_a_model_is_that_model():
    found, module = findings.Findings(), build("sequence-classification", "bert").model
    first = found.at(state_of(module))
    first.facts["padding"] = "changes nothing"
    module.count = 1
    second = found.at(state_of(module), first)
    assert second.number != first.number
    assert second.facts["padding"] == "changes nothing"


def test_recordings_of_a_module_are_played_again_and_do_not_keep_it(monkeypatch):
    class Still(Tape):
        runs_again = False

        def record(self, work):
            work()
            return lambda: played.append(1)

    played = []
    monkeypatch.setattr(recording, "DEVICES", ("cpu",))
    monkeypatch.setattr(recording, "Tape", Still)
    monkeypatch.setattr("whence.models.playing._near", lambda *pair: True)
    module, given = build("sequence-classification", "bert").model, ids()
    for _ in range(4):
        whence.explain(module, given)
    assert len(played) > 4
    alive = weakref.ref(module)
    del module
    gc.collect()
    assert alive() is None
