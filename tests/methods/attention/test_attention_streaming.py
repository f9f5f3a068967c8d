"""GAE during the backward pass: the same scores, and never more than a map or two in memory."""

from __future__ import annotations

import copy
import weakref

import numpy as np
import pytest
import torch
import transformers

import whence
from tests import small
from whence.core.batch import Batch
from whence.core.capture import capture

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


@pytest.mark.parametrize("row", ["auto", "last", "mean", "column_sum"])
@pytest.mark.parametrize("name", MODELS)
def test_streamed_equals_plain(name, row):
    model, inputs = MODELS[name]()
    streamed, plain = (
        whence.explain(model, inputs, "gae", stream=stream, row=row, batch_tokens=10_000) for stream in (True, False)
    )
    for a, b in zip(streamed, plain, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, atol=1e-6 * np.abs(b.scores).max(), rtol=1e-5)  # float32
        assert a.target == b.target
        assert a.target_score == pytest.approx(b.target_score, abs=1e-5)


@pytest.mark.parametrize("name", ["encoder", "decoder classifier, padded left"])
def test_streamed_batch_equals_streamed_loop(name):
    model, inputs = MODELS[name]()
    for exp, text in zip(whence.explain(model, inputs, "gae", batch_tokens=10_000), inputs, strict=True):
        alone = whence.explain(model, text, "gae")
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
    capture(
        lambda batch: module(**batch), Batch.of({"input_ids": ids}, "input_ids"), target=lambda o: o.logits[:, 0],
        visitor=visitor,
    )  # fmt: skip


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


def most_seen(module) -> int:
    """The most maps alive at once among those that a visitor was shown."""
    shown: list[weakref.ref] = []
    alive = []

    def visit(number, attention, gradient) -> None:
        shown.extend((weakref.ref(attention), weakref.ref(gradient)))
        alive.append(sum(ref() is not None for ref in shown))

    run(module, visit)
    assert len(alive) == module.config.num_hidden_layers
    return max(alive)


def test_maps_do_not_pile_up_with_depth():
    few, many = (most_seen(deep_encoder(layers)) for layers in (2, 8))
    assert few == many == 2  # one layer's map and its gradient


def test_autograd_keeps_no_maps_with_depth():
    ignore = lambda *_: None
    few, many = (most_saved(deep_encoder(layers), ignore) for layers in (2, 8))
    assert few == many <= 3
    assert most_saved(deep_encoder(8), None) > most_saved(deep_encoder(2), None) > many  # without streaming they do
