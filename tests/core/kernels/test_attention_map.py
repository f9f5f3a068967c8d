"""Pᵀ x without P, against P written down: in chunks, with queries and keys exchanged, and as a Triton kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.core.helpers import CLOSE, explain, normal
from tests.core.kernels.cases import MASKS, SHAPES, operator, wanted, written_down
from whence.core.kernels import attention_map
from whence.core.kernels.constant_map import with_constant_map
from whence.core.rules import softmax


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_some_queries_at_a_time(shape, mask, monkeypatch):
    made = operator(shape, mask)
    monkeypatch.setitem(attention_map.CHUNK, "cpu", 1000)
    x = normal(*made.q.shape[:3], 5, seed=4)
    torch.testing.assert_close(made.transposed(x), wanted(made, x), **CLOSE)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_fused_forward_and_its_transpose(shape, mask):
    made = operator(shape, mask)
    v = normal(*made.k.shape, seed=5).requires_grad_()
    out, lse = made.attend(v.detach())
    assert lse is not None
    torch.testing.assert_close(out, written_down(made) @ v.detach().repeat_interleave(made.group, 1), **CLOSE)
    result = with_constant_map(made, v)
    grad = normal(*result.shape, seed=6)
    (got,) = torch.autograd.grad(result, v, grad)
    torch.testing.assert_close(got, wanted(made, grad), **CLOSE)


def test_half_precision_is_not_exchanged():
    """The log-sum-exp as a channel would lose its digits."""
    made = operator("square", "none", torch.bfloat16)
    v = normal(*made.k.shape, seed=5, dtype=torch.bfloat16).requires_grad_()
    grad = normal(*made.q.shape, seed=6, dtype=torch.bfloat16)
    (got,) = torch.autograd.grad(with_constant_map(made, v), v, grad)
    error = (got.double() - wanted(made, grad)).abs().max() / wanted(made, grad).abs().max()
    assert error < 0.02


@pytest.mark.parametrize("mask", [None, "causal", "padding"])
def test_long_and_short_inputs_have_the_same_rule(mask, monkeypatch):
    x = normal(2, 3, 4, 6, 8)
    padding = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    padding[1, ..., 4:] = False
    options = {None: {}, "causal": {"is_causal": True}, "padding": {"attn_mask": padding}}[mask]

    def run(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x[:, 0], x[:, 1], x[:, 2], **options)

    short = explain(run, x)
    monkeypatch.setattr(softmax, "SMALL", 0)
    torch.testing.assert_close(explain(run, x).relevance["x"], short.relevance["x"], **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])  # the interpreter's bfloat16 is none
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_for_gpus(shape, mask, dtype, monkeypatch):
    """By Triton's interpreter where there is no GPU; with the log-sum-exp given, and with one of its own."""
    pytest.importorskip("triton")
    from whence.core.kernels import triton_map

    made = operator(shape, mask, dtype)
    x = normal(*made.q.shape[:3], 16 if shape == "whole blocks" else 20, seed=4, dtype=dtype)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 0.02, "atol": 0.02}
    torch.testing.assert_close(triton_map.transposed(made, x).double(), wanted(made, x), **close)
    if made.mask is None:
        scores = made.q.double() @ made.k.double().repeat_interleave(made.group, 1).mT * made.factor
        if made.causal:
            scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
        given = replace(made, lse=scores.logsumexp(-1, keepdim=True).float())
        torch.testing.assert_close(triton_map.transposed(given, x).double(), wanted(made, x), **close)
        monkeypatch.setattr(triton_map, "SHORT", 0)  # map after map
        torch.testing.assert_close(triton_map.transposed(given, x).double(), wanted(made, x), **close)


@pytest.mark.parametrize("shape", ["groups", "other keys"])
def test_heads_that_were_cut_out_of_one_vector_go_back_into_it(shape):
    """As a view of (batch, key, head · channel)."""
    pytest.importorskip("triton")
    from whence.core.kernels import triton_map

    made = operator(shape, "none", torch.float32)
    x = normal(*made.q.shape, seed=4, dtype=torch.float32)
    cut = replace(made, k=made.k.transpose(1, 2).contiguous().transpose(1, 2))
    apart, together = triton_map.transposed(made, x), triton_map.transposed(cut, x)
    assert apart.is_contiguous()
    assert together.transpose(1, 2).is_contiguous()
    torch.testing.assert_close(together, apart)
