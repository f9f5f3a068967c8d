"""Fused attention with its gradient, as torch differentiates it, and the map that is shown on the way back."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.core.helpers import CLOSE, normal
from tests.core.kernels.cases import MASKS, SHAPES, operator, written_down
from whence.core.kernels.kept_attention import kept_attention


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_is_the_gradient(shape, mask, fused, monkeypatch):
    made = operator(shape, mask)
    if mask == "forbidden":
        made = replace(made, mask=made.mask | (torch.arange(made.k.shape[-2]) == 0))  # no row without a look
    q, k, v = (t.clone().requires_grad_() for t in (made.q, made.k, normal(*made.k.shape, seed=5)))
    made = replace(made, q=q, k=k)
    if not fused:
        monkeypatch.setattr(type(made), "kernel", lambda self, v: None)
    seen = []
    out = kept_attention(made, v, seen.append)
    right = written_down(made) @ v.repeat_interleave(made.group, 1)
    torch.testing.assert_close(out, right, **CLOSE)
    grad = normal(*out.shape, seed=6)
    wanted = torch.autograd.grad(right, (q, k, v), grad)
    for found, one in zip(torch.autograd.grad(out, (q, k, v), grad), wanted, strict=True):
        torch.testing.assert_close(found, one, **CLOSE)
    (shown,) = seen
    weights = normal(made.q.shape[0], made.q.shape[2], seed=7)
    helpful = (written_down(made) * (grad @ v.repeat_interleave(made.group, 1).mT)).clamp(min=0)
    torch.testing.assert_close(shown.helpful_columns(weights), torch.einsum("bq,bhqk->bk", weights, helpful), **CLOSE)
