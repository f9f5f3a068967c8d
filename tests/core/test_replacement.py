"""Attention replaced by other maps, in every spelling of attention."""

from __future__ import annotations

import threading

import pytest
import torch
import transformers

from tests import small
from whence.core.batch import Batch
from whence.core.replacement import observed, replaced
from whence.errors import InputError

IDS = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


def _eager():
    config = small._config("BertConfig", num_labels=3, attn_implementation="eager")
    return small.randomised(transformers.BertForSequenceClassification(config))


def _text(module):
    return (lambda i: module(**i).logits), Batch.of({"input_ids": IDS, "attention_mask": MASK}, "input_ids")


def _image(module):
    pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return (lambda i: module(**i).logits), Batch.of({"pixel_values": pixels}, "pixel_values")


def _by_hand(module):
    return (lambda i: module(**i)), Batch.of({"tokens": IDS}, "tokens")


MODELS = {
    "bert sdpa": lambda: _text(small.classifier()),
    "bert eager": lambda: _text(_eager()),
    "llama": lambda: _text(small.llama()),
    "vit": lambda: _image(small.vit()),
    "nn.TransformerEncoder": lambda: _by_hand(small.by_hand()),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_computed_map_in_its_own_place_changes_nothing(name):
    forward, batch = MODELS[name]()
    with torch.no_grad():
        expected = forward(batch.inputs)
    maps = observed(forward, batch).maps
    assert len(maps) == 2
    with torch.no_grad(), replaced(batch, dict(enumerate(maps))) as inputs:
        got = forward(inputs)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)  # fused against spelled out, float32
    rows = maps[0].sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_another_map_changes_the_output_and_has_a_gradient(name):
    forward, batch = MODELS[name]()
    maps = observed(forward, batch).maps
    before = forward(batch.inputs)
    new = torch.full_like(maps[0], 1 / maps[0].shape[-1]).requires_grad_()
    with replaced(batch, {0: new}) as inputs:
        after = forward(inputs)
    assert (after - before).abs().max() > 1e-4
    (grad,) = torch.autograd.grad(after.square().sum(), new)
    assert grad.abs().max() > 0


@pytest.mark.parametrize("name", ["bert sdpa", "bert eager"])
def test_the_gradient_is_that_of_finite_differences(name):
    forward, batch = MODELS[name]()
    maps = observed(forward, batch).maps
    new = maps[1].clone().requires_grad_()

    def score(m):
        with replaced(batch, {1: m}) as inputs:
            return forward(inputs)[0, 0]

    (grad,) = torch.autograd.grad(score(new), new)
    step = torch.zeros_like(new)
    step[0, 1, 0, 2] = 0.05
    with torch.no_grad():
        slope = (score(new + step) - score(new - step)) / 0.1
    torch.testing.assert_close(slope, grad[0, 1, 0, 2], rtol=2e-2, atol=1e-4)  # central difference in float32


def test_masks_are_respected():
    forward, batch = MODELS["llama"]()
    seen = []

    def everywhere(observed, allowed):
        seen.append(allowed)
        return torch.ones_like(observed)

    with torch.no_grad(), replaced(batch, {0: everywhere}) as inputs:
        forward(inputs)
    assert not seen[0][0].triu(1).any(), "the future"
    assert not seen[0][1, :, :, 4:].any(), "padding"


def test_zeros_of_the_mask_stay_in_the_map_that_is_used():
    """With padding forced to zero, another padding token can't reach the output."""
    forward, batch = MODELS["bert sdpa"]()
    ones = {n: torch.ones(2, 4, 6, 6) / 6 for n in range(2)}
    other = Batch.of({**batch.inputs, "input_ids": IDS.masked_fill(MASK == 0, 17)}, "input_ids")
    with torch.no_grad():
        with replaced(batch, ones) as inputs:
            a = forward(inputs)
        with replaced(other, ones) as inputs:
            b = forward(inputs)
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", MODELS)
def test_one_head_alone(name):
    forward, batch = MODELS[name]()
    maps = observed(forward, batch).maps
    heads = dict.fromkeys(((0, h) for h in range(maps[0].shape[1])), lambda o, a: a / a.sum(-1, keepdim=True))
    with torch.no_grad():
        with replaced(batch, {0: lambda o, a: a / a.sum(-1, keepdim=True)}) as inputs:
            whole = forward(inputs)
        with replaced(batch, heads) as inputs:
            by_head = forward(inputs)
        with replaced(batch, {(0, 1): heads[0, 1]}) as inputs:
            single = forward(inputs)
    torch.testing.assert_close(whole, by_head)
    assert (single - whole).abs().max() > 1e-6


def test_nothing_stays_behind_and_other_threads_see_nothing():
    forward, batch = MODELS["bert sdpa"]()
    with torch.no_grad():
        expected = forward(batch.inputs)
        found = []
        with replaced(batch, {0: torch.zeros(2, 4, 6, 6)}) as inputs:
            thread = threading.Thread(target=lambda: found.append(forward(inputs).detach()))
            thread.start()
            thread.join()
            forward(inputs)
        with pytest.raises(IndexError), replaced(batch, {0: torch.zeros(2, 4, 6, 6)}) as inputs:
            forward({**inputs, "input_ids": IDS + 10_000})  # no such words
        torch.testing.assert_close(forward(batch.inputs), expected)
        torch.testing.assert_close(found[0], expected)
    assert all(p.grad is None for p in small.classifier().parameters())


def test_wrong_layers_heads_and_shapes_are_named():
    forward, batch = MODELS["bert sdpa"]()
    with torch.no_grad():
        with pytest.raises(InputError, match="attention layers 0 to 1"), replaced(batch, {5: torch.ones(1)}) as inputs:
            forward(inputs)
        with pytest.raises(InputError, match="no head 9"), replaced(batch, {(0, 9): torch.ones(1)}) as inputs:
            forward(inputs)
        with (
            pytest.raises(InputError, match="the replacement has"),
            replaced(batch, {0: torch.ones(2, 4, 3, 3)}) as inputs,
        ):
            forward(inputs)
