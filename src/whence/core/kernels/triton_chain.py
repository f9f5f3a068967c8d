"""Backward passes of chains (`whence.core.chains`) on a GPU, in one pass over the gradient."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["rotated", "scaled", "takes"]

TILE = 4096
"""Numbers that a program works on."""


def takes(grad: Tensor) -> bool:
    """Sums and products are in float32."""
    return grad.dtype in (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def _scaled(G, ROW, COLUMN, OUT, rows, columns, BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr,
            R: tl.constexpr, C: tl.constexpr):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    c = tl.program_id(1) * C + tl.arange(0, C)
    at = r[:, None] * columns + c[None, :]
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    g = tl.load(G + at, mask=inside, other=0.0).to(tl.float32)
    if BY_ROW:
        g *= tl.load(ROW + r, mask=r < rows, other=0.0).to(tl.float32)[:, None]
    if BY_COLUMN:
        g *= tl.load(COLUMN + c, mask=c < columns, other=0.0).to(tl.float32)[None, :]
    tl.store(OUT + at, g.to(OUT.dtype.element_ty), mask=inside)


def scaled(grad: Tensor, row: Tensor | None, column: Tensor | None, dtype: torch.dtype) -> Tensor:
    """grad · row · column."""
    grad = grad.contiguous()
    columns = grad.shape[-1]
    rows = grad.numel() // columns
    out = torch.empty_like(grad, dtype=dtype)
    C = min(TILE, triton.next_power_of_2(columns))
    R = TILE // C
    _scaled[(triton.cdiv(rows, R), triton.cdiv(columns, C))](
        grad, grad if row is None else row.contiguous(), grad if column is None else column.contiguous(), out,
        rows, columns, BY_ROW=row is not None, BY_COLUMN=column is not None, R=R, C=C,
    )  # fmt: skip
    return out


@triton.jit
def _rotated(G, COS, SIN, OUT, heads, length, half, rows, g0, g1, g2, o0, o1, o2, c0, c2, s0, s2,
             R: tl.constexpr, H: tl.constexpr):  # fmt: skip
    n = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    head, token, example = n % heads, n // heads % length, n // heads // length
    d = tl.arange(0, H)
    inside = (n[:, None] < rows) & (d[None, :] < half)
    g = G + (example * g0 + head * g1 + token * g2)[:, None] + d[None, :]
    o = OUT + (example * o0 + head * o1 + token * o2)[:, None] + d[None, :]
    c = COS + (example * c0 + token * c2)[:, None] + d[None, :]
    s = SIN + (example * s0 + token * s2)[:, None] + d[None, :]
    first = tl.load(g, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(g + half, mask=inside, other=0.0).to(tl.float32)
    one = first * tl.load(c, mask=inside, other=0.0) + second * tl.load(s + half, mask=inside, other=0.0)
    two = second * tl.load(c + half, mask=inside, other=0.0) - first * tl.load(s, mask=inside, other=0.0)
    tl.store(o, one.to(OUT.dtype.element_ty), mask=inside)
    tl.store(o + half, two.to(OUT.dtype.element_ty), mask=inside)


def rotated(grad: Tensor, cos: Tensor, sin: Tensor, out: Tensor) -> None:
    """Into `out`, from (example, head, token, dimension): the gradient of x in x · cos + [-x₂, x₁] · sin."""
    examples, heads, length, size = grad.shape
    grad, cos, sin = (t if t.stride(-1) == 1 else t.contiguous() for t in (grad, cos, sin))
    over = [t.stride(0) if t.shape[0] > 1 else 0 for t in (cos, sin)]
    half, rows = size // 2, examples * heads * length
    H = triton.next_power_of_2(half)
    R = max(1, TILE // 2 // H)
    _rotated[(triton.cdiv(rows, R),)](
        grad, cos, sin, out, heads, length, half, rows, *grad.stride()[:3], *out.stride()[:3],
        over[0], cos.stride(2), over[1], sin.stride(2), R=R, H=H,
    )  # fmt: skip
