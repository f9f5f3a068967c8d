"""Attention in kernels of its own: torch does it while a model is explained, and then it is as it was."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

import whence
from tests import small


class _Hidden(torch.autograd.Function):
    """What a package with kernels of its own brings: right, with a gradient, and closed to everybody."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad, grad, None


CALLS: list[int] = []


def _attend(module, query, key, value, attention_mask, **options):
    CALLS.append(1)
    key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    return _Hidden.apply(query, key, value, True).transpose(1, 2).contiguous(), None


@pytest.fixture
def hidden():
    """A Llama whose attention nobody can see into, and one like it that all can."""
    AttentionInterface.register("hidden_kernel", _attend)
    AttentionMaskInterface.register("hidden_kernel", sdpa_mask)
    known = small.llama()
    closed = copy.deepcopy(known)
    closed.set_attn_implementation("hidden_kernel")
    return closed, known


IDS = {"input_ids": torch.tensor([[3, 5, 7, 9, 11]])}


@pytest.mark.parametrize("memory", ["keep", "recompute"])
@pytest.mark.parametrize("method", ["lrp", "attn_lrp", "gi", "rollout", "gae"])
def test_explained_as_by_torch(hidden, method, memory):
    closed, known = hidden
    CALLS.clear()
    found = whence.explain(closed, IDS, method, memory=memory)
    wanted = whence.explain(known, IDS, method, memory=memory)
    assert not CALLS
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-5, atol=1e-7)
    assert found.target_score == pytest.approx(wanted.target_score)
    assert found.stamp["attention"] == "by torch in place of hidden_kernel"
    assert "attention" not in wanted.stamp
    assert closed.config._attn_implementation == "hidden_kernel"


def test_put_back_after_an_error_and_by_the_last(hidden):
    closed, _ = hidden
    model = whence.load(closed)
    assert "attends by torch in place of hidden_kernel" in repr(model)
    with pytest.raises(whence.WhenceError):
        whence.explain(model, IDS, target="no such word")
    assert closed.config._attn_implementation == "hidden_kernel"
    done = [threading.Thread(target=whence.explain, args=(model, IDS)) for _ in range(4)]
    for thread in done:
        thread.start()
    for thread in done:
        thread.join()
    assert closed.config._attn_implementation == "hidden_kernel"


def test_flex():
    known = small.llama()
    flex = copy.deepcopy(known)
    flex.set_attn_implementation("flex_attention")
    found = whence.explain(flex, IDS)
    np.testing.assert_allclose(found.scores, whence.explain(known, IDS).scores, rtol=1e-5, atol=1e-7)
    assert found.stamp["attention"] == "by torch in place of flex_attention"
    assert flex.config._attn_implementation == "flex_attention"
