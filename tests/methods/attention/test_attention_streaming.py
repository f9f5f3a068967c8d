"""Maps that pass and are not held: the same scores, and memory that does not grow with depth."""

from __future__ import annotations

import copy
import weakref

import numpy as np
import pytest
import torch
import transformers

import whence
from tests import small
from whence.core import streaming
from whence.core.batch import Batch
from whence.core.capture import capture
from whence.core.kernels import attention_map
from whence.core.streaming import look, stream
from whence.methods.attention import gae, streamed_method

TEXTS = ["a gorgeous movie", "not good , but not very bad", "dull"]
LENGTH = 13


def left_padding():
    tokenizer = copy.deepcopy(small.bytelevel())
    tokenizer.padding_side = "left"
    return tokenizer


MODELS = {
    "encoder": lambda: ((small.classifier(), small.wordpiece()), TEXTS),
    "tagger": lambda: ((small.tagger(), small.wordpiece()), TEXTS),
    "decoder": lambda: ((small.llama(), small.bytelevel()), TEXTS),
    "decoder classifier": lambda: ((small.llama_classifier(), small.bytelevel()), TEXTS),
    "decoder classifier, padded left": lambda: ((small.llama_classifier(), left_padding()), TEXTS),
    "images": lambda: (small.vit(), torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))),
    "mean of all tokens": lambda: (small.by_hand(), {"tokens": torch.arange(15).reshape(3, 5)}),
}


METHODS = {
    "gae": {}, "gae, code": {"variant": "code"}, "rollout": {}, "rollout, max": {"fusion": "max"},
    "rollout, min, plain": {"fusion": "min", "residual": "add_identity"}, "rollout, none": {"residual": "none"},
    "rollout, zero": {"zero_self": True, "start_layer": -1}, "attention_last": {}, "attention_last, code":
    {"variant": "code"}, "attention_last, min": {"fusion": "min"}, "grad_sam": {}, "grad_sam, key": {"axis": "key"},
    "attcat": {}, "attention_grad_cam": {}, "attention_grad_cam, code": {"variant": "code"},
}  # fmt: skip


def same(streamed, plain):
    for a, b in zip(streamed, plain, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, atol=2e-5 * np.abs(b.scores).max(), rtol=2e-5)  # float32
        assert a.target == b.target
        assert a.target_score == pytest.approx(b.target_score, abs=1e-5)
        assert a.prediction.labels == b.prediction.labels


@pytest.mark.parametrize("row", ["auto", "last", "mean", "column_sum"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_streamed_equals_plain(name, method, row, monkeypatch):
    monkeypatch.setitem(attention_map.CHUNK, "cpu", 40)  # some rows at a time
    model, inputs = MODELS[name]()
    options = {**METHODS[method], "row": row, "batch_tokens": 10_000}
    streamed, plain = (
        whence.explain(model, inputs, method.partition(",")[0], stream=stream, **options) for stream in (True, False)
    )
    same(streamed, plain)


@pytest.mark.parametrize("method", ["gae", "rollout", "attention_last", "grad_sam", "attcat", "attention_grad_cam"])
def test_written_maps_pass_as_well(method):
    """A model whose attention is spelled out."""
    module = copy.deepcopy(small.classifier())
    module.set_attn_implementation("eager")
    model = (module, small.wordpiece())
    same(*(whence.explain(model, TEXTS, method, stream=stream, batch_tokens=10_000) for stream in (True, False)))


@pytest.mark.parametrize("method", ["gae", "grad_sam", "attcat"])
def test_blocks_that_run_again_show_their_maps_once(method):
    model = (small.llama(), small.bytelevel())
    again, kept = (whence.explain(model, TEXTS, method, stream=True, memory=memory) for memory in ("recompute", "keep"))
    same(again, kept)


def test_long_inputs_are_streamed_by_themselves(monkeypatch):
    monkeypatch.setattr(streamed_method, "LARGE", 8)
    seen = []
    monkeypatch.setattr(gae, "stream", lambda *args, **kw: seen.append(1) or stream(*args, **kw))
    whence.explain((small.classifier(), small.wordpiece()), TEXTS, "gae")
    assert seen


@pytest.mark.parametrize("name", ["encoder", "decoder classifier, padded left"])
def test_streamed_batch_equals_streamed_loop(name):
    model, inputs = MODELS[name]()
    for exp, text in zip(whence.explain(model, inputs, "gae", stream=True, batch_tokens=10_000), inputs, strict=True):
        alone = whence.explain(model, text, "gae", stream=True)
        np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-5 * np.abs(alone.scores).max(), rtol=1e-4)


# -- memory ----------------------------------------------------------------------------------------------------------


def deep_encoder(layers: int) -> transformers.BertForSequenceClassification:
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    return small.randomised(transformers.BertForSequenceClassification(config))


def run(module, visitor=None) -> None:
    ids = torch.arange(LENGTH)[None] + 3
    assert module.config._attn_implementation == "sdpa"
    forward, batch = lambda batch: module(**batch), Batch.of({"input_ids": ids}, "input_ids")
    options = {} if visitor is None else {"visitor": visitor}
    (capture if visitor is None else stream)(forward, batch, target=lambda o: o.logits[:, 0], **options)


class SavedMaps:
    """Counts tensors of the size of a map that autograd keeps for its backward pass."""

    def __init__(self) -> None:
        self.alive = self.most = 0

    def keep(self, tensor: torch.Tensor):
        if tuple(tensor.shape[-2:]) != (LENGTH, LENGTH):
            return lambda: tensor
        self.alive += 1
        self.most = max(self.most, self.alive)
        held = lambda: tensor
        weakref.finalize(held, self.dropped)
        return held

    def dropped(self) -> None:
        self.alive -= 1


def most_saved(module, visitor) -> int:
    saved = SavedMaps()
    with torch.autograd.graph.saved_tensors_hooks(saved.keep, lambda held: held()):
        run(module, visitor)
    return saved.most


def test_looking_forward_keeps_the_last_layer_alone():
    """What autograd saves is dropped at every attention."""
    ids = torch.arange(LENGTH)[None] + 3
    forward = lambda module: lambda batch: module(**batch)
    most = {}
    for layers in (2, 8):
        sizes = []
        clear = streaming._Dropping.pack

        def pack(self, t, clear=clear, sizes=sizes):
            made = clear(self, t)
            sizes.append(len(self.values))
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(streaming._Dropping, "pack", pack)
            batch = Batch.of({"input_ids": ids}, "input_ids")
            look(forward(deep_encoder(layers)), batch, target=lambda o: o.logits[:, 0])
        most[layers] = max(sizes)
    assert most[2] == most[8]


def test_autograd_keeps_no_maps_with_depth():
    ignore = lambda *_: None
    few, many = (most_saved(deep_encoder(layers), ignore) for layers in (2, 8))
    assert few == many == 0
    assert most_saved(deep_encoder(8), None) > most_saved(deep_encoder(2), None) > many  # without streaming they do
