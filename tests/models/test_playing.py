"""A pass that is played from a recording gives what computing gives; here it is recorded by running again."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
import torch
from torch import nn

import whence
from tests import small
from tests.core.helpers import Refusing
from whence.core import recording
from whence.core.memory import held, planned
from whence.core.recording import Recordings, Tape
from whence.core.rules import softmax
from whence.methods.explaining import as_method, explain_examples
from whence.models import playing
from whence.models.adapter import AbstractAdapter
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

    def spy(self, batch, *asked):
        seen.append(batch.examples)
        return play(self, batch, *asked)

    monkeypatch.setattr(recording.Recording, "play", spy)
    return seen


def others(inputs: dict, by: int) -> dict:
    """Other inputs of the same shape."""
    return {
        k: v.roll(by, -1) if k in ("input_ids", "decoder_input_ids") else v + 0.1 * by if k == "pixel_values" else v
        for k, v in inputs.items()
    }


def sizes(model):
    """Rows of its recordings."""
    return sorted(rows for (_, rows), made in model.recordings._made.items() if made is not None)


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


def test_a_setting_of_the_configuration_is_another_recording(played):
    """Where a text ends is a number that a classifier on the last token looks for."""
    model, ids = recorded()
    count = len(played)
    model.config.pad_token_id = 7
    whence.explain(model, {"input_ids": ids})
    assert len(played) == count


def test_they_hold_a_part_of_the_memory_and_no_more(played, monkeypatch):
    """What a pass needs of memory that no other has left is theirs for good."""
    held, needed = [0], [0]
    record = Tape.record
    monkeypatch.setattr(playing, "_whole", lambda device: 100.0)
    monkeypatch.setattr(Tape, "held", lambda self: held[-1])
    monkeypatch.setattr(Tape, "record", lambda self, work: (held.append(max(held[-1], *needed)), record(self, work))[1])
    model, ids = whence.load(build("sequence-classification", "bert").model), torch.randint(5, 90, (6, 9))

    def explained(rows, length):
        before, needed[0] = len(played), 3 * rows
        for _ in range(4):
            whence.explain(model, {"input_ids": ids[:rows, :length]})
        return len(played) - before

    assert explained(3, 9) == 3  # 9 of 10: compared, and played twice
    assert explained(2, 5) == 3  # into the same memory
    assert explained(5, 7) == 1  # it would be 15
    assert model.recordings.too_many == 35
    assert explained(6, 7) == 0  # more than what did not fit is not tried
    assert explained(3, 9) == 4
    assert len(model.recordings) == 2


def test_few_are_made_for_batches_of_many_sizes(played):
    """One of the largest that was seen has room for all."""
    model, ids = whence.load(build("sequence-classification", "bert").model), torch.randint(5, 90, (40, 9))
    for rows in (40, 3, 17, 9, 2, 33, 40):
        whence.explain(model, {"input_ids": ids[:rows]})
    assert [size for _, size in model.recordings._made] == [48]
    assert played == [3, 17, 9, 2, 33, 40]  # the first of them was compared


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


def test_what_was_predicted_is_told_while_the_device_goes_back(played, monkeypatch):
    """As much as can be is done before the scores are waited for."""
    order, read, predictions = [], recording.Recording._read, AbstractAdapter.predictions

    def noted(name, work):
        return lambda *given: order.append(name) or work(*given)

    model = whence.load(build("sequence-classification", "bert").model)
    monkeypatch.setattr(recording.Recording, "_read", noted("read", read))
    for _ in range(3):
        whence.explain(model, {"input_ids": torch.randint(5, 90, (3, 9))})
    order.clear()
    monkeypatch.setattr(AbstractAdapter, "predictions", noted("predictions", predictions))
    whence.explain(model, {"input_ids": torch.randint(5, 90, (3, 9))})
    assert order == ["predictions", "read"]


class Growing(nn.Module):
    """Makes its table of positions anew when a longer text comes, as models with angles do."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(99, 4), nn.Linear(4, 2)
        self.register_buffer("places", torch.zeros(0, 4), persistent=False)

    def forward(self, input_ids):
        count = input_ids.shape[1]
        if len(self.places) < count:
            self.places = torch.sin(torch.arange(count)[:, None] / torch.arange(1, 5))
        return self.out((self.words(input_ids) + self.places[:count]).sum(1))


def test_a_table_that_a_pass_replaced_is_read_no_more(played):
    """Within one call, too: a recording knows where the table was, and a longer text has put another in its place."""
    model = whence.load(Growing().eval())
    counts = []
    for length in (8, 8, 8, 8, 30, 8):
        before = len(played)
        examples, _ = model.encode({"input_ids": torch.randint(5, 90, (1, length))})
        explain_examples(model, as_method("lrp"), examples)
        counts.append(len(played) - before)
    assert counts == [0, 1, 1, 1, 0, 0]  # the second is compared; after the longer one all begins anew


def test_what_becomes_another_model_in_every_pass_is_never_recorded(played):
    class Leaving(Growing):
        def forward(self, input_ids):
            self.seen = input_ids * 1
            return super().forward(input_ids)

    model = whence.load(Leaving().eval())
    for _ in range(2):
        whence.explain(model, {"input_ids": torch.randint(5, 90, (12, 8))}, batch_tokens=32)  # three batches
    assert not played


def test_a_target_of_many_terms_does_not_keep_others_from_being_played(played):
    class Wide(Growing):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 40)

    model, ids = whence.load(Wide().eval()), torch.randint(5, 90, (1, 8))
    for target in (whence.contrast(0, *range(1, 30)),) * 4 + (0,) * 4:
        whence.explain(model, {"input_ids": ids}, target=target)
    assert len(model.recordings) == 1


def test_a_size_that_failed_does_not_keep_smaller_ones_from_being_tried():
    held = Recordings()
    held.keep((0, "x"), 64, None)
    assert [held.due((0, "x"), rows) for rows in (64, 2, 2)] == [0, 2, 2]


def test_an_error_of_whatever_kind_is_no_error_of_the_explanation(played, monkeypatch):
    monkeypatch.setattr(Tape, "record", lambda self, work: {}["nothing"])
    model, ids = whence.load(build("sequence-classification", "bert").model), torch.randint(5, 90, (3, 9))
    for _ in range(4):
        assert len(whence.explain(model, {"input_ids": ids})) == 3
    assert not played


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


def test_a_recording_that_is_much_too_large_is_played_until_a_smaller_one_is_worth_the_while(played):
    made = build("sequence-classification", "bert")
    model = whence.load(made.model)

    def batch(rows):
        return {"input_ids": torch.randint(5, 90, (rows, 9))}

    for _ in range(3):
        whence.explain(model, batch(24))
    assert sizes(model) == [24]
    for _ in range(3 * 8):
        whence.explain(model, batch(7))  # room for 3 times as many: good enough
    assert sizes(model) == [24]
    for _ in range(3 * 8):
        whence.explain(model, batch(3))
    assert sizes(model) == [3, 24]
    before = len(played)
    found = whence.explain(model, given := batch(3))
    assert len(played) == before + 1
    model.recordings.clear()
    same(found, whence.explain(model, given))


def test_a_smaller_one_that_could_not_be_made_is_not_tried_again():
    held, large = Recordings(), object()
    held.keep("x", 64, large)
    found = []
    for _ in range(5 * 8):
        found.append(held.find("x", 2))
        if found[-1] is None and (rows := held.due("x", 2)):
            held.keep("x", rows, None)
    assert found.count(None) == 1


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


@pytest.mark.parametrize("family", ["llama", "qwen3", "bert"])
def test_masks_that_hide_nothing_are_not_written_down(family, played, monkeypatch):
    """Models that see that they are recorded write them, for they can't look whether any hides something."""
    masks = []

    def record(self, work):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        with monkeypatch.context() as patch, Refusing():
            patch.setattr(
                "whence.core.rules.softmax.mask_arguments",
                lambda a, given=softmax.mask_arguments: masks.append(a["attn_mask"]) or given(a),
            )
            work()
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        return work

    monkeypatch.setattr(Tape, "record", record)
    model = whence.load(build(TASKS[family], family).model)
    ids = torch.randint(5, 90, (2, 16))
    for n in range(3):
        whence.explain(model, {"input_ids": ids.roll(n, 1), "attention_mask": torch.ones_like(ids)})
    assert masks
    assert all(mask is None for mask in masks)
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


@pytest.mark.parametrize("wrong", [True, False])
def test_a_guess_is_compared_with_the_choice(wrong, played, monkeypatch):
    """The backward pass begins with a guess. Where logits tie, a device may see another class as the largest."""
    if wrong:
        best = recording.Recording._best

        def other(self, first):
            marks = best(self, first)
            marks[1, : self.examples] = marks[1, : self.examples] // 2 * 2 + (marks[1, : self.examples] + 1) % 2
            return marks

        monkeypatch.setattr(recording.Recording, "_best", other)
    model, ids = recorded(rows=4)
    (made,) = (r for r in model.recordings._made.values() if r is not None)
    times = []
    there = made._play_there
    made._play_there = lambda: (times.append(1), there())
    found = whence.explain(model, {"input_ids": ids.flip(1)})
    assert len(times) == (2 if wrong else 1)
    monkeypatch.setattr(recording, "DEVICES", ())
    same(found, whence.explain(model, {"input_ids": ids.flip(1)}))


def test_a_class_is_known_beforehand(played, monkeypatch):
    model, ids = recorded(rows=4)
    (made,) = (r for r in model.recordings._made.values() if r is not None)
    order = []
    there, back, choose = made._play_there, made._play_back, playing.TargetScores.choose
    made._play_there, made._play_back = lambda: (order.append("there"), there()), lambda: (order.append("back"), back())
    monkeypatch.setattr(playing.TargetScores, "choose", lambda self, near: (order.append("choose"), choose(self, near)))
    whence.explain(model, {"input_ids": ids}, target=[0, 1, 1, 0])
    assert order == ["there", "back", "choose"]
    order.clear()
    whence.explain(model, {"input_ids": ids}, target=whence.contrast(0, 1))
    assert order == ["there", "choose", "back"]


def test_another_thread_that_computes_changes_nothing(played):
    """Its hooks are on the model for a while; they are its own affair."""
    model, ids = recorded()
    count = len(played)
    with planned("recompute"), held(model.module):
        assert any(module._forward_hooks for module in model.module.modules())
        other = threading.Thread(target=whence.explain, args=(model, {"input_ids": ids}))
        other.start()
        other.join()
    assert len(played) == count + 1
