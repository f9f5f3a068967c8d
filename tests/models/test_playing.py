"""A pass that is played from a recording gives what computing gives; here it is recorded by running again."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import whence
from tests import small
from whence.core import recording
from whence.core.recording import Recordings, Tape
from whence.methods.explaining import as_method, explain_examples
from whence.models import playing
from zoo.build import build

TASKS = {
    "bert": "sequence-classification", "llama": "causal-lm", "gpt2": "causal-lm", "vit": "image-classification",
    "t5": "seq2seq-lm", "modernbert": "sequence-classification", "gemma2": "causal-lm", "qwen3": "causal-lm",
    "roberta": "sequence-classification", "deberta-v2": "sequence-classification",
}  # fmt: skip


@pytest.fixture
def played(monkeypatch):
    """Recordings on the CPU; how many batches were played."""
    monkeypatch.setattr(recording, "DEVICES", ("cpu",))
    seen = []
    play = recording.Recording.play

    def spy(self, batch, choose):
        seen.append(batch.examples)
        return play(self, batch, choose)

    monkeypatch.setattr(recording.Recording, "play", spy)
    return seen


def others(inputs: dict, by: int) -> dict:
    """Other inputs of the same shape."""
    return {
        k: v.roll(by, -1) if k in ("input_ids", "decoder_input_ids") else v + 0.1 * by if k == "pixel_values" else v
        for k, v in inputs.items()
    }


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, atol=1e-5 * max(1e-3, np.abs(b.scores).max()))
        assert (a.target, a.prediction.labels) == (b.target, b.prediction.labels)
        assert a.target_score == pytest.approx(b.target_score, rel=1e-5, abs=1e-5)
        assert a.conservation.sinks == pytest.approx(b.conservation.sinks, abs=1e-5 * b.conservation.scale)
        assert a.conservation.unruled == b.conservation.unruled


@pytest.mark.parametrize("method", ["exact", "attn_lrp"])
@pytest.mark.parametrize("family", TASKS)
def test_played_is_computed(family, method, played, monkeypatch):
    made = build(TASKS[family], family)
    inputs = dict(made.inputs)
    model = whence.load(made.model)
    for n in range(3):
        found = whence.explain(model, others(inputs, n), method, receipt="full")
    assert played, "nothing was recorded"
    assert len(model.recordings)
    monkeypatch.setattr(recording, "DEVICES", ())
    same(found, whence.explain(model, others(inputs, 2), method, receipt="full"))


def test_texts_of_many_lengths(played, monkeypatch):
    texts = [" ".join(["good", "bad", "film", "plot"][(n + i) % 4] for i in range(2 + n % 3)) for n in range(12)]
    model = copy.deepcopy(whence.load("sentiment"))
    for _ in range(3):
        found = whence.explain(model, texts, batch_tokens=32)
    assert played
    monkeypatch.setattr(recording, "DEVICES", ())
    same(found, whence.explain(model, texts, batch_tokens=32))


@pytest.mark.parametrize("kind", ["tagger", "answerer"])
def test_outputs_at_every_token(kind, played, monkeypatch):
    model = whence.load((getattr(small, kind)(), small.wordpiece()))
    text = ("the film is good", "a good film") if kind == "answerer" else "the film is good"
    other = ("the plot is good", "a bad film") if kind == "answerer" else "the film is bad"
    for _ in range(3):
        whence.explain(model, text)
    assert played
    found = whence.explain(model, other)
    monkeypatch.setattr(recording, "DEVICES", ())
    same([found], [whence.explain(model, other)])


def recorded(rows: int = 3, **settings):
    """A model that was asked often enough, and what it was asked."""
    module, ids = build("sequence-classification", "bert").model, torch.randint(5, 90, (rows, 9))
    for name, value in settings.items():
        setattr(module.bert, name, value)
    model = whence.load(module)
    for _ in range(3):
        whence.explain(model, {"input_ids": ids})
    return model, ids


def test_fewer_rows_than_were_recorded(played, monkeypatch):
    model, ids = recorded(rows=6)
    before = len(played)
    found = whence.explain(model, {"input_ids": ids[2:5].flip(1)})
    assert len(played) == before + 1
    monkeypatch.setattr(recording, "DEVICES", ())
    same(found, whence.explain(model, {"input_ids": ids[2:5].flip(1)}))


def test_targets_are_chosen_for_each_batch(played, monkeypatch):
    model, ids = recorded()
    target = [whence.contrast(0, 1), 1, 0]
    found = whence.explain(model, {"input_ids": ids}, target=target)
    monkeypatch.setattr(recording, "DEVICES", ())
    same(found, whence.explain(model, {"input_ids": ids}, target=target))


def test_another_model_is_another_recording(played):
    """Weights that moved, a hook: what was recorded holds no longer."""
    model, ids = recorded()
    count = len(played)
    handle = model.module.register_forward_hook(lambda module, args, out: None)
    whence.explain(model, {"input_ids": ids})
    assert len(played) == count
    handle.remove()
    whence.explain(model, {"input_ids": ids})
    assert len(played) == count + 1
    model.module.classifier.weight = nn.Parameter(model.module.classifier.weight.clone())
    whence.explain(model, {"input_ids": ids})
    assert len(played) == count + 1


def test_a_switch_in_python_is_another_recording(played):
    model, ids = recorded(active_adapters=["one"])
    count = len(played)
    model.module.bert.active_adapters = []
    whence.explain(model, {"input_ids": ids})
    assert len(played) == count


def test_they_hold_a_part_of_the_memory_and_no_more(played, monkeypatch):
    reserved = itertools.count(step=60)
    monkeypatch.setattr(playing, "_reserved", lambda device: next(reserved))
    monkeypatch.setattr(playing, "_whole", lambda device: 1000.0)
    model, ids = recorded()
    assert len(model.recordings) == 1
    for length in (16, 24):
        for _ in range(4):
            whence.explain(model, {"input_ids": ids.repeat(1, 3)[:, :length]})
    assert len(model.recordings) == 1  # the next would be 120 of 100
    assert model.recordings.held == 120


def test_what_looks_at_its_input_is_computed(played, monkeypatch):
    """A number that Python took from the batch it was recorded with is found out, and nothing is played."""

    class Looking(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = nn.Embedding(9, 4), nn.Linear(4, 2)
            self.seen = None

        def forward(self, ids):
            if self.seen is None or not recorded:
                self.seen = float(ids[0, 0])
            return self.out(self.table(ids).sum(1)) * self.seen

    recorded = []
    monkeypatch.setattr(
        Tape, "record", lambda self, work: (recorded.append(1), work(), recorded.clear())[1] or (lambda: None)
    )
    model = whence.load(Looking().eval())
    ids = torch.tensor([[3, 2, 1]])
    for _ in range(4):
        whence.explain(model, ids)
    assert len(played) == 1  # the comparison
    assert set(model.recordings._made.values()) == {None}


def test_a_function_as_target_is_computed(played):
    ids = {"input_ids": torch.randint(5, 90, (3, 9))}
    model = whence.load(build("sequence-classification", "bert").model)
    for _ in range(4):
        whence.explain(model, ids, target=lambda outputs: outputs.logits[:, 0])
    assert not played


def test_recordings_stay_where_they_are():
    held = Recordings()
    held._made["x", 1] = None
    for other in (pickle.loads(pickle.dumps(held)), copy.deepcopy(held)):
        assert not other._made


def test_they_are_few(monkeypatch):
    monkeypatch.setattr(recording, "MOST", 3)
    held = Recordings()
    for n in range(5):
        held.keep("x", n, None)
    assert [rows for _, rows in held._made] == [2, 3, 4]


WAITS = (
    "_local_scalar_dense",
    "nonzero",
    "_unique2",
    "unique_dim",
    "is_nonzero",
    "equal",
    "lift_fresh",
    "masked_select",
)
"""Functions for which the host waits for a GPU, or gives it numbers of its own: neither can be recorded."""


class Refusing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        if name in WAITS or (name == "index" and any(t is not None and t.dtype == torch.bool for t in args[1])):
            raise RuntimeError(f"{name} in a recording")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("family", [f for f in TASKS if f != "deberta-v2"])
def test_a_pass_asks_nothing_of_the_device(family, played, monkeypatch):
    def record(self, work):
        with Refusing():
            work()
        return work

    monkeypatch.setattr(Tape, "record", record)
    monkeypatch.setattr("transformers.utils.import_utils.is_cuda_stream_capturing", lambda: True)
    made = build(TASKS[family], family)
    model = whence.load(made.model)
    for n in range(3):
        whence.explain(model, others(dict(made.inputs), n), "exact", receipt="full")
    assert any(model.recordings._made.values())


def test_a_model_with_a_mask_needs_no_mask_where_nothing_is_masked(played):
    model = whence.load(small.llama())
    ids = torch.randint(5, 90, (2, 16))
    for _ in range(3):
        whence.explain(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    (made,) = (r for r in model.recordings._made.values() if r is not None)
    assert "attention_mask" not in made.batch.inputs


def test_batches_side_by_side(played, monkeypatch):
    """Two threads, one set of buffers."""
    texts = [" ".join(["good", "bad", "film", "plot"][(n * i) % 4] for i in range(2 + n % 5)) for n in range(60)]
    model = copy.deepcopy(whence.load("sentiment"))
    examples, _ = model.encode(texts)
    method = as_method("lrp")
    for _ in range(4):
        found = explain_examples(model, method, examples, batch_tokens=48, threads=4)
    assert played
    monkeypatch.setattr(recording, "DEVICES", ())
    same(found, explain_examples(model, method, examples, batch_tokens=48))
