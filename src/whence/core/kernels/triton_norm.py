"""The backward pass of a layer norm whose deviation is held constant, on a GPU, in one pass over the gradient."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["normed", "takes"]

TILE = 4096
"""Numbers that a program works on, or one row of them."""
WIDEST = 16384
"""Columns of a row that a program holds."""


def takes(grad: Tensor, columns: int) -> bool:
    """Sums are in float32."""
    return grad.dtype in (torch.float16, torch.bfloat16, torch.float32) and 0 < columns <= WIDEST


@triton.jit
def _normed(G, WEIGHT, RSTD, OUT, rows, columns, WEIGHTED: tl.constexpr, MEAN: tl.constexpr,
            R: tl.constexpr, C: tl.constexpr):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    c = tl.arange(0, C)
    at = r[:, None] * columns + c[None, :]
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    g = tl.load(G + at, mask=inside, other=0.0).to(tl.float32)
    if WEIGHTED:
        g *= tl.load(WEIGHT + c, mask=c < columns, other=0.0).to(tl.float32)[None, :]
    if MEAN:
        g -= tl.sum(g, 1)[:, None] / columns
    g *= tl.load(RSTD + r, mask=r < rows, other=0.0).to(tl.float32)[:, None]
    tl.store(OUT + at, g.to(OUT.dtype.element_ty), mask=inside)


def normed(grad: Tensor, weight: Tensor | None, rstd: Tensor, columns: int, *, through_mean: bool) -> Tensor:
    """(g - E[g]) · rstd with g = grad · weight, over rows of so many columns; without E[g] unless `through_mean`."""
    grad = grad.contiguous()
    rows = grad.numel() // columns
    out = torch.empty_like(grad)
    C = triton.next_power_of_2(columns)
    R = max(1, TILE // C)
    _normed[(triton.cdiv(rows, R),)](
        grad, grad if weight is None else weight.contiguous(), rstd.contiguous(), out, rows, columns,
        WEIGHTED=weight is not None, MEAN=through_mean, R=R, C=C,
    )  # fmt: skip
    return out
