"""`whence.replace`: heads that give nothing, heads that look everywhere, and maps of one's own."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import whence
from tests import small
from whence.errors import InputError
from zoo.build import build

TEXT = "a witty movie"


@pytest.fixture(scope="module")
def bert():
    return copy.deepcopy(small.classifier()).double().eval(), small.wordpiece()


def without(bert, layer, head):
    """The logits when a head's part of what the output layer reads is zero: by hand, with a hook."""
    module, tokenizer = bert
    mask = torch.ones(4, 6).double()
    mask[head] = 0
    dense = module.bert.encoder.layer[layer].attention.output.dense
    handle = dense.register_forward_pre_hook(lambda _, args: (args[0] * mask.reshape(-1),))
    with torch.no_grad():
        logits = module(**tokenizer(TEXT, return_tensors="pt")).logits[0]
    handle.remove()
    return logits


def test_a_head_that_gives_nothing(bert):
    made = whence.replace(bert, TEXT, heads={(1, 2): "zero"})
    logits = without(bert, 1, 2)
    found = dict(zip(made.after.labels, made.after.scores, strict=True))
    assert found[made.target] == pytest.approx(made.score_after, rel=1e-6)
    assert made.score_after == pytest.approx(float(logits[int(made.target.rpartition("_")[2])]), rel=1e-6)
    assert made.change != 0
    assert sum(made.after.probabilities) == pytest.approx(1)


def test_a_list_of_heads_is_zero_for_each(bert):
    listed = whence.replace(bert, TEXT, [(0, 1), (1, 2)])
    mapped = whence.replace(bert, TEXT, heads={(0, 1): "zero", (1, 2): np.zeros((5, 5))})
    assert listed.after == mapped.after
    assert listed.replaced == ("layer 0, head 1: zero", "layer 1, head 2: zero")


def test_a_mean_is_uniform_over_what_the_mask_allows():
    """In a causal model the first token sees itself alone, so that its row stays 1."""
    model = (copy.deepcopy(small.llama()).double().eval(), small.bytelevel())
    seen = []

    def looked(observed, allowed):
        seen.append((observed, allowed))
        return (allowed / allowed.sum(-1, keepdim=True)).to(observed)

    by_hand = whence.replace(model, "abc", layers={0: looked})
    by_word = whence.replace(model, "abc", layers={0: "mean"})
    assert by_word.after == by_hand.after
    assert not seen[0][1][0, 0, 0, 1]
    assert by_word.change != 0


def test_a_layer_is_all_its_heads(bert):
    assert whence.replace(bert, TEXT, layers=[1]).after == whence.replace(bert, TEXT, [(1, n) for n in range(4)]).after


def test_the_target_stays_that_of_the_prediction_before(bert):
    made = whence.replace(bert, TEXT, layers={0: "zero", 1: "zero"})
    assert made.target == made.before.label
    other = whence.replace(bert, TEXT, layers={0: "zero", 1: "zero"}, target=made.before.labels[-1])
    assert other.score_before == pytest.approx(made.before.scores[-1], rel=1e-6)
    assert made.to_dict()["change"] == made.change
    assert made.before.label in str(made)


def test_a_prediction_that_flips_is_measured_by_what_it_was():
    """One head that gives class 1 its lead, and a bias that is left to class 0 without it: by hand."""

    class First(torch.nn.Module):
        def forward(self, x):
            seen = torch.nn.functional.scaled_dot_product_attention(x, x, x)  # (example, head, token, channel)
            return seen.sum((1, 2)) + torch.tensor([1.0, 0.0])

    x = torch.zeros(1, 1, 2, 2)
    x[..., 1] = 3.0
    made = whence.replace(First().eval(), x, [(0, 0)])
    assert made.flips
    assert (made.score_before, made.score_after) == (6.0, 0.0)
    assert made.after.scores == (1.0, 0.0)


def test_a_list_in_a_list_out_and_nothing_is_left_behind(bert):
    first, second = whence.replace(bert, [TEXT, "good"], [(0, 0)])
    assert first.after != second.after
    assert whence.replace(bert, "good", [(0, 0)]).before == second.before
    assert whence.replace(bert, "good", [[0, 0]]).after == second.after


def test_errors_say_what_to_pass(bert):
    with pytest.raises(InputError, match="nothing is replaced"):
        whence.replace(bert, TEXT)
    with pytest.raises(InputError, match=r"attention layers 0 to 1"):
        whence.replace(bert, TEXT, [(2, 0)])
    with pytest.raises(InputError, match="heads 0 to 3"):
        whence.replace(bert, TEXT, [(0, 4)])
    with pytest.raises(InputError, match=r"heads are \(layer, head\)"):
        whence.replace(bert, TEXT, heads={3: "zero"})
    with pytest.raises(InputError, match="nothing is replaced: pass heads="):
        whence.replace(bert, TEXT, None)
    with pytest.raises(InputError, match=r"layers=2 is no list of layers: pass layers=\[2\]"):
        whence.replace(bert, TEXT, layers=2)
    with pytest.raises(InputError, match=r"heads='zero' is no list of heads: pass heads=\[\(0, 3\)\]"):
        whence.replace(bert, TEXT, "zero")
    with pytest.raises(InputError, match=r"not 0: pass heads=\[\(0, 3\)\]"):
        whence.replace(bert, TEXT, (0, 3))
    with pytest.raises(
        InputError, match=r"layer 0, head 0 gave float, not a tensor: return a map of shape \(1, 5, 5\)"
    ):
        whence.replace(bert, TEXT, {(0, 0): lambda observed, allowed: 0.5})
    with pytest.raises(InputError, match="is no map: pass an array of numbers"):
        whence.replace(bert, TEXT, {(0, 0): ["a", "b"]})
    with pytest.raises(InputError, match="'zero' or 'mean'"):
        whence.replace(bert, TEXT, heads={(0, 0): "nothing"})
    specimen = build("image-classification", "swin")
    with pytest.raises(InputError, match="over windows or chunks"):
        whence.replace(specimen.model, {"pixel_values": specimen.inputs["pixel_values"][:1]}, [(0, 0)])
