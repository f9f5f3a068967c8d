"""Attention replaced by other maps, in every spelling of attention."""

from __future__ import annotations

import threading

import pytest
import torch
import transformers

from tests import small
from whence.core.replacement import observed, replaced
from whence.errors import InputError

IDS = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


def _eager():
    config = small._config("BertConfig", num_labels=3, attn_implementation="eager")
    return small.randomised(transformers.BertForSequenceClassification(config))


def _text(module):
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    return (lambda i: module(**i).logits), inputs


def _image(module):
    pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return (lambda i: module(**i).logits), {"pixel_values": pixels}


def _by_hand(module):
    return (lambda i: module(**i)), {"tokens": IDS}


MODELS = {
    "bert sdpa": lambda: _text(small.classifier()),
    "bert eager": lambda: _text(_eager()),
    "llama": lambda: _text(small.llama()),
    "vit": lambda: _image(small.vit()),
    "nn.TransformerEncoder": lambda: _by_hand(small.by_hand()),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_computed_map_in_its_own_place_changes_nothing(name):
    forward, inputs = MODELS[name]()
    with torch.no_grad():
        expected = forward(inputs)
    maps = observed(forward, inputs, examples=2).maps
    assert len(maps) == 2
    with torch.no_grad(), replaced(dict(enumerate(maps)), examples=2):
        got = forward(inputs)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)  # fused against spelled out, float32
    rows = maps[0].sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_another_map_changes_the_output_and_has_a_gradient(name):
    forward, inputs = MODELS[name]()
    maps = observed(forward, inputs, examples=2).maps
    before = forward(inputs)
    new = torch.full_like(maps[0], 1 / maps[0].shape[-1]).requires_grad_()
    with replaced({0: new}, examples=2):
        after = forward(inputs)
    assert (after - before).abs().max() > 1e-4
    (grad,) = torch.autograd.grad(after.square().sum(), new)
    assert grad.abs().max() > 0


@pytest.mark.parametrize("name", ["bert sdpa", "bert eager"])
def test_the_gradient_is_that_of_finite_differences(name):
    forward, inputs = MODELS[name]()
    maps = observed(forward, inputs, examples=2).maps
    new = maps[1].clone().requires_grad_()

    def score(m):
        with replaced({1: m}, examples=2):
            return forward(inputs)[0, 0]

    (grad,) = torch.autograd.grad(score(new), new)
    step = torch.zeros_like(new)
    step[0, 1, 0, 2] = 0.05
    with torch.no_grad():
        slope = (score(new + step) - score(new - step)) / 0.1
    torch.testing.assert_close(slope, grad[0, 1, 0, 2], rtol=2e-2, atol=1e-4)  # central difference in float32


def test_masks_are_respected():
    forward, inputs = MODELS["llama"]()
    seen = []

    def everywhere(observed, allowed):
        seen.append(allowed)
        return torch.ones_like(observed)

    with torch.no_grad(), replaced({0: everywhere}, examples=2):
        forward(inputs)
    assert not seen[0][0].triu(1).any(), "the future"
    assert not seen[0][1, :, :, 4:].any(), "padding"


def test_zeros_of_the_mask_stay_in_the_map_that_is_used():
    """With padding forced to zero, another padding token can't reach the output."""
    forward, inputs = MODELS["bert sdpa"]()
    ones = {n: torch.ones(2, 4, 6, 6) / 6 for n in range(2)}
    other = {**inputs, "input_ids": IDS.masked_fill(MASK == 0, 17)}
    with torch.no_grad():
        with replaced(ones, examples=2):
            a = forward(inputs)
        with replaced(ones, examples=2):
            b = forward(other)
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", MODELS)
def test_one_head_alone(name):
    forward, inputs = MODELS[name]()
    maps = observed(forward, inputs, examples=2).maps
    heads = dict.fromkeys(((0, h) for h in range(maps[0].shape[1])), lambda o, a: a / a.sum(-1, keepdim=True))
    with torch.no_grad():
        with replaced({0: lambda o, a: a / a.sum(-1, keepdim=True)}, examples=2):
            whole = forward(inputs)
        with replaced(heads, examples=2):
            by_head = forward(inputs)
        with replaced({(0, 1): heads[0, 1]}, examples=2):
            single = forward(inputs)
    torch.testing.assert_close(whole, by_head)
    assert (single - whole).abs().max() > 1e-6


def test_nothing_stays_behind_and_other_threads_see_nothing():
    forward, inputs = MODELS["bert sdpa"]()
    with torch.no_grad():
        expected = forward(inputs)
        found = []
        with replaced({0: torch.zeros(2, 4, 6, 6)}, examples=2):
            thread = threading.Thread(target=lambda: found.append(forward(inputs).detach()))
            thread.start()
            thread.join()
            forward(inputs)
        with pytest.raises(IndexError), replaced({0: torch.zeros(2, 4, 6, 6)}, examples=2):
            forward({**inputs, "input_ids": IDS + 10_000})  # no such words
        torch.testing.assert_close(forward(inputs), expected)
        torch.testing.assert_close(found[0], expected)
    assert all(p.grad is None for p in small.classifier().parameters())


def test_wrong_layers_heads_and_shapes_are_named():
    forward, inputs = MODELS["bert sdpa"]()
    with torch.no_grad():
        with pytest.raises(InputError, match="attention layers 0 to 1"), replaced({5: torch.ones(1)}, examples=2):
            forward(inputs)
        with pytest.raises(InputError, match="no head 9"), replaced({(0, 9): torch.ones(1)}, examples=2):
            forward(inputs)
        with pytest.raises(InputError, match="the replacement has"), replaced({0: torch.ones(2, 4, 3, 3)}, examples=2):
            forward(inputs)
