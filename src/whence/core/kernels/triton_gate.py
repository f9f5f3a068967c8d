"""Gradients of activations x · s(x) and of gated products on a GPU, in one pass over what they are made of."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["SLOPES", "gradients", "sloped", "takes"]

SLOPES = ("silu", "gelu")
"""Activations x · s(x) whose slopes s are known here."""
BLOCK = 2048


def takes(*tensors: Tensor) -> bool:
    """In half precision alone: s is computed in float32, as near as that asks for."""
    return all(t.dtype in (torch.float16, torch.bfloat16) and t.is_contiguous() for t in tensors)


@triton.jit
def _slope(x, KIND: tl.constexpr):
    if KIND == 0:
        s = 1 / (1 + tl.exp(-x))
    elif KIND == 1:
        s = 0.5 * (1 + tl.erf(x * 0.7071067811865476))
    else:  # ½ (1 + tanh z) = σ(2z), z = √(2/π) (x + 0.044715 x³)
        s = 1 / (1 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
    return s


@triton.jit
def _gate(X, U, G, DX, DU, share, N, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, mask=at < N, other=0.0).to(tl.float32)
    u = tl.load(U + at, mask=at < N, other=0.0).to(tl.float32)
    g = tl.load(G + at, mask=at < N, other=0.0).to(tl.float32) * share * _slope(x, KIND)
    tl.store(DX + at, (g * u).to(DX.dtype.element_ty), mask=at < N)
    tl.store(DU + at, (g * x).to(DU.dtype.element_ty), mask=at < N)


@triton.jit
def _sloped(X, G, OUT, N, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, mask=at < N, other=0.0).to(tl.float32)
    g = tl.load(G + at, mask=at < N, other=0.0).to(tl.float32)
    tl.store(OUT + at, (g * _slope(x, KIND)).to(OUT.dtype.element_ty), mask=at < N)


def _kind(name: str, options: Mapping[str, Any]) -> int:
    return 0 if name == "silu" else 2 if options.get("approximate") == "tanh" else 1


def sloped(name: str, options: Mapping[str, Any], x: Tensor, grad: Tensor) -> Tensor:
    """Of x in y = [s(x)] · x."""
    out, count = torch.empty_like(grad), x.numel()
    _sloped[(triton.cdiv(count, BLOCK),)](x, grad, out, count, KIND=_kind(name, options), BLOCK=BLOCK)
    return out


def gradients(
    name: str, options: Mapping[str, Any], x: Tensor, u: Tensor, grad: Tensor, share: float
) -> tuple[Tensor, Tensor]:
    """Of x and of u in y = [s(x)] · x · u, each with its share."""
    through_x, through_u = torch.empty_like(x), torch.empty_like(u)
    count = x.numel()
    _gate[(triton.cdiv(count, BLOCK),)](
        x, u, grad, through_x, through_u, share, count, KIND=_kind(name, options), BLOCK=BLOCK
    )
    return through_x, through_u
