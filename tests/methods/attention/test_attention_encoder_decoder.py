"""Encoder-decoders: GAE's update rules for two sequences, Grad-SAM and the last maps; the others say no."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import whence
from tests import small
from tests.methods.attention.eager import eager_maps, one
from tests.reference import attention_methods as slow
from whence.methods.attention.attention_method import cropped
from whence.methods.explaining import as_method
from whence.models.padding import padded
from zoo.build import build

FIELDS = ("encoder_attentions", "decoder_attentions", "cross_attentions")
TARGET = 7
IDS = {"input_ids": torch.tensor([[2, 5, 9, 14, 8, 3]]), "decoder_input_ids": torch.tensor([[0, 5, 6, 11]])}


def layers(module, inputs, target):
    """(A, ∇A) per encoder layer; (A, ∇A, cross A, cross ∇A) per decoder layer."""
    seen = eager_maps(module, inputs, target, FIELDS)
    encoder, own, cross = (list(zip(*seen[field].of(0), strict=True)) for field in FIELDS)
    return encoder, [(*a, *b) for a, b in zip(own, cross, strict=True)]


def close(made: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(made, wanted, atol=1e-5 * np.abs(wanted).max(), rtol=1e-4)  # float32 against float64


@pytest.mark.parametrize("name", ["t5", "bart", "m2m_100"])
def test_gae_of_a_given_decoder_sequence(name):
    module, inputs = (small.t5(), IDS)
    if name != "t5":
        specimen = build("seq2seq-lm", name)
        module, inputs = specimen.model, one(specimen.inputs, 0)
    length = inputs["decoder_input_ids"].shape[1]
    wanted = slow.gae_encoder_decoder(*layers(module, inputs, lambda o: o.logits[:, -1, TARGET]), [length - 1])
    close(whence.explain(module, inputs, "gae", TARGET).scores, np.concatenate(wanted))


def test_gae_of_a_continuation_is_read_from_every_token_that_predicts_it():
    module, tokenizer = small.t5(), small.wordpiece()
    exp = whence.explain((module, tokenizer), "a good film", "gae", whence.span(score="logit"), continuation="not bad")
    chosen = tokenizer(text_target="not bad")["input_ids"]
    inputs = {
        "input_ids": tokenizer("a good film", return_tensors="pt")["input_ids"],
        "decoder_input_ids": torch.tensor([[0, *chosen[:-1]]]),
    }
    target = lambda o: sum(o.logits[:, n, token] for n, token in enumerate(chosen))
    wanted = slow.gae_encoder_decoder(*layers(module, inputs, target), list(range(len(chosen))))
    close(exp.scores, np.concatenate(wanted))


def with_its_own_tokens(source: np.ndarray, decoder: np.ndarray) -> np.ndarray:
    """A decoder that reads the source shifted by one: the share of its token i belongs to token i - 1."""
    total = source.copy()
    total[:-1] += decoder[1:]
    return total


def test_gae_of_a_classifier_that_reads_its_input_twice():
    specimen = build("sequence-classification", "bart")
    exps = whence.explain(specimen.model, dict(specimen.inputs), "gae", 1)
    for n, exp in enumerate(exps):
        encoder, decoder = layers(specimen.model, one(specimen.inputs, n), lambda o: o.logits[:, 1])
        close(exp.scores, with_its_own_tokens(*slow.gae_encoder_decoder(encoder, decoder, [11])))


def test_grad_sam_and_last_of_two_sequences():
    module = small.t5()
    encoder, decoder = layers(module, IDS, lambda o: o.logits[:, -1, TARGET])
    own, cross = [d[:2] for d in decoder], [d[2:] for d in decoder]
    A, G = (list(x) for x in zip(*encoder, strict=True))
    source = slow.grad_sam(A, G)
    # By query, cross-attention scores decoder tokens: summed with their own maps, averaged over both.
    heads, length = own[0][0].shape[:2]
    product = sum((a * np.maximum(g, 0)).sum((0, 2)) for a, g in (*own, *cross))
    close(
        whence.explain(module, IDS, "grad_sam", TARGET).scores,
        np.concatenate([source, product / (4 * heads * length)]),
    )
    wanted = [slow.attention_last([a], [3]) for a in (cross[-1][0], own[-1][0])]
    close(whence.explain(module, IDS, "attention_last", TARGET).scores, np.concatenate(wanted))


def classifier(side: str):
    """A BART classifier, which reads the last [SEP] of a decoder that is given the source shifted by one."""
    tokenizer = copy.deepcopy(small.wordpiece())
    tokenizer.padding_side = side
    module = copy.deepcopy(build("sequence-classification", "bart").model)
    module.config.pad_token_id, module.config.eos_token_id = 0, 3
    return whence.load((module, tokenizer))


TEXTS = ["a good film", "bad", "not a dull plot"]


@pytest.mark.parametrize("method", ["gae", "grad_sam", "attention_last"])
def test_batch_equals_loop(method):
    model = classifier("right")
    for text, exp in zip(TEXTS, whence.explain(model, TEXTS, method, 1, batch_tokens=10_000), strict=True):
        close(exp.scores, whence.explain(model, text, method, 1).scores)


def test_padding_before_the_tokens_is_cut_from_all_three_kinds_of_maps():
    """(Absolute positions count that padding, so these scores are those of another input: the maps are compared.)"""
    model = classifier("left")
    examples, _ = model.encode(TEXTS)
    batch = padded(examples, model, "left")
    captured, relevance, _ = as_method("gae").collect(model, batch, [model.target(1)] * 3)
    own = slice(3, None)  # "[CLS] bad [SEP]" beside six tokens
    for layer, whole in zip(cropped(batch, 1, captured, relevance), captured.maps, strict=True):
        torch.testing.assert_close(layer.attention, whole.probabilities[1, :, own, own])
        torch.testing.assert_close(layer.gradient, whole.gradient[1, :, own, own])


@pytest.mark.parametrize(
    "method", ["rollout", "attention_flow", "transformer_attribution", "partial_lrp", "attention_grad_cam", "attcat"]
)
def test_methods_for_one_sequence_say_so(method):
    with pytest.raises(whence.WhenceError, match=f"{method} is defined for attention within one sequence.*Use gae"):
        whence.explain(small.t5(), IDS, method, TARGET)
