"""Pᵀ x on a GPU: one pass over the tiles of a map that never exists as a whole.

A program has a block of keys and adds up p(query, key) · x(query) over all queries that may see them. p is computed
again from q, k and the log-sum-exp of its row.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from whence.core.kernels.attention_map import AttentionOperator

__all__ = ["columns", "log_sum_exp", "rows", "takes", "transposed"]

LOG2E = 1.4426950408889634
WIDEST = 256
SHORT = 16384
"""Keys up to which programs go across all maps. In a causal map the first keys are seen by most queries: it is well to
begin with the long work of every map (at 8,192 keys: 1.13 ms in place of 1.59). Of longer ones the parts that programs
share are better kept in the cache."""


def takes(operator: AttentionOperator, x: Tensor) -> bool:
    q = operator.q
    return q.dtype != torch.float64 and max(q.shape[-1], x.shape[-1]) <= WIDEST and q.dtype == operator.k.dtype


@triton.jit
def _block(blocks, ACROSS: tl.constexpr):
    """Which block of its map a program has, and whose map it is: map after map, or `ACROSS` all maps block after block.

    One axis of programs: the others hold 65,535.
    """
    n = tl.program_id(0)
    if ACROSS:
        maps = tl.num_programs(0) // blocks
        return n // maps, (n % maps).to(tl.int64)
    else:
        return n % blocks, (n // blocks).to(tl.int64)


@triton.jit
def _load(at, rows, stride, columns, N, C, EVEN: tl.constexpr):
    """Rows of a matrix, zero outside of it; `EVEN` where blocks end with it."""
    places = at + rows[:, None].to(tl.int64) * stride + columns[None, :]
    if EVEN:
        return tl.load(places)
    else:
        return tl.load(places, mask=(rows[:, None] < N) & (columns[None, :] < C), other=0.0)


@triton.jit
def _load_lse(at, queries, NQ, EVEN: tl.constexpr):
    """Infinite outside, where p = 0."""
    if EVEN:
        return tl.load(at + queries)
    else:
        return tl.load(at + queries, mask=queries < NQ, other=float("inf"))


@triton.jit
def _biased(s, M, om, on, smm, smn, NQ, NK, MASK: tl.constexpr):
    """Scores (key, query) in base 2 with the mask in them: 1 says where a query may look, 2 is added."""
    at = M + om[None, :].to(tl.int64) * smm + on[:, None].to(tl.int64) * smn
    inside = (om[None, :] < NQ) & (on[:, None] < NK)
    if MASK == 1:
        s = tl.where(tl.load(at, mask=inside, other=0) != 0, s, float("-inf"))
    else:
        s = s + tl.load(at, mask=inside, other=0.0).to(tl.float32) * 1.4426950408889634
    return s


@triton.jit
def _tile_of(
    qp, xp, lp, mp, k, om, on, od, oc, scale, sqn, sxn, smm, smn, NQ, NK, D, C,
    MASK: tl.constexpr, PRECISION: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """p (key, query) of a tile, and x of its queries."""
    q = _load(qp, om, sqn, od, NQ, D, EVEN)
    lse = _load_lse(lp, om, NQ, EVEN)
    s = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale
    if MASK > 0:
        s = _biased(s, mp, om, on, smm, smn, NQ, NK, MASK)
    x = _load(xp, om, sxn, oc, NQ, C, EVEN)
    return tl.math.exp2(s - lse[None, :]), x


@triton.jit
def _transposed(
    Q, K, X, L, M, OUT, scale,
    sqb, sqh, sqn, skb, skh, skn, sxb, sxh, sxn, sob, soh, son, smb, smh, smm, smn,
    H, G, NQ, NK, D, C,
    CAUSAL: tl.constexpr, MASK: tl.constexpr, PRECISION: tl.constexpr, ACROSS: tl.constexpr, EVEN: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    block, other = _block(tl.cdiv(NK, BN), ACROSS)
    b, key_head = other // (H // G), other % (H // G)
    on = block * BN + tl.arange(0, BN)
    od, oc = tl.arange(0, BD), tl.arange(0, BC)
    k = _load(K + b * skb + key_head * skh, on, skn, od, NK, D, EVEN)
    total = tl.zeros([BN, BC], dtype=tl.float32)
    first = (block * BN // BM) * BM if CAUSAL else 0
    whole = ((block + 1) * BN + BM - 1) // BM * BM if CAUSAL else 0  # from here on every query sees all these keys
    for g in range(G):
        h = key_head * G + g
        qp, xp, lp, mp = Q + b * sqb + h * sqh, X + b * sxb + h * sxh, L + (b * H + h) * NQ, M + b * smb + h * smh
        if CAUSAL:
            for start in range(first, tl.minimum(whole, NQ), BM):
                om = start + tl.arange(0, BM)
                p, x = _tile_of(
                    qp, xp, lp, mp, k, om, on, od, oc, scale, sqn, sxn, smm, smn, NQ, NK, D, C, MASK, PRECISION, EVEN
                )
                p = tl.where(om[None, :] >= on[:, None], p, 0.0)
                total += tl.dot(p.to(x.dtype), x, input_precision=PRECISION)
        for start in range(whole, NQ, BM):
            om = start + tl.arange(0, BM)
            p, x = _tile_of(
                qp, xp, lp, mp, k, om, on, od, oc, scale, sqn, sxn, smm, smn, NQ, NK, D, C, MASK, PRECISION, EVEN
            )
            total += tl.dot(p.to(x.dtype), x, input_precision=PRECISION)
    tl.store(
        OUT + b * sob + key_head * soh + on[:, None].to(tl.int64) * son + oc[None, :], total.to(OUT.dtype.element_ty),
        mask=(on[:, None] < NK) & (oc[None, :] < C),
    )  # fmt: skip


@triton.jit
def _log_sum_exp(
    Q, K, M, L, scale, sqb, sqh, sqn, skb, skh, skn, smb, smh, smm, smn, H, G, NQ, NK, D,
    CAUSAL: tl.constexpr, MASK: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    block, other = _block(tl.cdiv(NQ, BM), False)
    b, h = other // H, other % H
    om = block * BM + tl.arange(0, BM)
    od = tl.arange(0, BD)
    q = _load(Q + b * sqb + h * sqh, om, sqn, od, NQ, D, False)
    highest = tl.full([BM], float("-inf"), dtype=tl.float32)
    total = tl.zeros([BM], dtype=tl.float32)
    last = tl.minimum(NK, (block + 1) * BM) if CAUSAL else NK
    for start in range(0, last, BN):
        on = start + tl.arange(0, BN)
        k = _load(K + b * skb + (h // G) * skh, on, skn, od, NK, D, False)
        s = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale
        if MASK > 0:
            s = _biased(s, M + b * smb + h * smh, om, on, smm, smn, NQ, NK, MASK)
        s = tl.where(on[:, None] < NK, s, float("-inf"))
        if CAUSAL:
            s = tl.where(om[None, :] >= on[:, None], s, float("-inf"))
        new = tl.maximum(highest, tl.max(s, 0))
        shift = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.math.exp2(highest - shift) + tl.sum(tl.math.exp2(s - shift[None, :]), 0)
        highest = new
    nowhere = total == 0.0
    value = tl.where(nowhere, float("inf"), highest + tl.math.log2(tl.where(nowhere, 1.0, total)))
    tl.store(L + (b * H + h) * NQ + om, value, mask=om < NQ)


@triton.jit
def _columns(
    Q, K, X, V, L, M, OUT, scale,
    sqb, sqh, sqn, skb, skh, skn, sxb, sxh, sxn, svb, svh, svn, smb, smh, smm, smn,
    H, G, NQ, NK, D, C, W,
    HELPFUL: tl.constexpr,
    CAUSAL: tl.constexpr, MASK: tl.constexpr, PRECISION: tl.constexpr, ACROSS: tl.constexpr, EVEN: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Of a block of keys: Σ_q w_q p, or Σ_q w_q p (v · x)⁺."""
    block, other = _block(tl.cdiv(NK, BN), ACROSS)
    b, h = other // H, other % H
    on = block * BN + tl.arange(0, BN)
    od, oc = tl.arange(0, BD), tl.arange(0, BC)
    k = _load(K + b * skb + (h // G) * skh, on, skn, od, NK, D, EVEN)
    if HELPFUL:
        v = _load(V + b * svb + (h // G) * svh, on, svn, oc, NK, C, EVEN)
    total = tl.zeros([BN], dtype=tl.float32)
    first = (block * BN) // BM * BM if CAUSAL else 0
    for start in range(first, NQ, BM):
        om = start + tl.arange(0, BM)
        q = _load(Q + b * sqb + h * sqh, om, sqn, od, NQ, D, EVEN)
        lse = _load_lse(L + (b * H + h) * NQ, om, NQ, EVEN)
        w = tl.load(W + b * NQ + om, mask=om < NQ, other=0.0)
        s = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale
        if MASK > 0:
            s = _biased(s, M + b * smb + h * smh, om, on, smm, smn, NQ, NK, MASK)
        p = tl.math.exp2(s - lse[None, :])
        if CAUSAL:
            p = tl.where(om[None, :] >= on[:, None], p, 0.0)
        if HELPFUL:
            x = _load(X + b * sxb + h * sxh, om, sxn, oc, NQ, C, EVEN)
            p = p * tl.maximum(tl.dot(v, tl.trans(x), input_precision=PRECISION), 0.0)
        total += tl.sum(p * w[None, :], 1)
    tl.store(OUT + (b * H + h) * NK + on, total, mask=on < NK)


@triton.jit
def _rows(
    Q, K, X, V, L, M, OUT, scale,
    sqb, sqh, sqn, skb, skh, skn, sxb, sxh, sxn, svb, svh, svn, smb, smh, smm, smn,
    H, G, NQ, NK, D, C,
    CAUSAL: tl.constexpr, MASK: tl.constexpr, PRECISION: tl.constexpr, ACROSS: tl.constexpr, EVEN: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Of a block of queries: Σ_k p (v · x)⁺."""
    block, other = _block(tl.cdiv(NQ, BM), ACROSS)
    b, h = other // H, other % H
    om = block * BM + tl.arange(0, BM)
    od, oc = tl.arange(0, BD), tl.arange(0, BC)
    q = _load(Q + b * sqb + h * sqh, om, sqn, od, NQ, D, EVEN)
    x = _load(X + b * sxb + h * sxh, om, sxn, oc, NQ, C, EVEN)
    lse = _load_lse(L + (b * H + h) * NQ, om, NQ, EVEN)
    total = tl.zeros([BM], dtype=tl.float32)
    last = tl.minimum(NK, (block + 1) * BM) if CAUSAL else NK
    for start in range(0, last, BN):
        on = start + tl.arange(0, BN)
        k = _load(K + b * skb + (h // G) * skh, on, skn, od, NK, D, EVEN)
        v = _load(V + b * svb + (h // G) * svh, on, svn, oc, NK, C, EVEN)
        s = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale
        if MASK > 0:
            s = _biased(s, M + b * smb + h * smh, om, on, smm, smn, NQ, NK, MASK)
        p = tl.where(on[:, None] < NK, tl.math.exp2(s - lse[None, :]), 0.0)
        if CAUSAL:
            p = tl.where(om[None, :] >= on[:, None], p, 0.0)
        total += tl.sum(p * tl.maximum(tl.dot(v, tl.trans(x), input_precision=PRECISION), 0.0), 0)
    tl.store(OUT + (b * H + h) * NQ + om, total, mask=om < NQ)


def columns(
    operator: AttentionOperator, weights: Tensor, values: Tensor | None = None, x: Tensor | None = None
) -> Tensor:
    """Σ_q w_q p, with values and x Σ_q w_q p (v · x)⁺: (batch, head, key) in float32."""
    helpful = values is not None and x is not None
    v, x = (values, x) if helpful else (operator.k, operator.q)
    wide = weights.to(operator.q.device, torch.float32).contiguous()
    return _summed(_columns, operator, v, x, operator.k.shape[-2], by_key=True, W=wide, HELPFUL=helpful)


def rows(operator: AttentionOperator, values: Tensor, x: Tensor) -> Tensor:
    """Σ_k p (v · x)⁺: (batch, head, query) in float32."""
    return _summed(_rows, operator, values, x, operator.q.shape[-2], by_key=False)


def _summed(kernel, operator: AttentionOperator, values, x, length: int, *, by_key: bool, **more: Any) -> Tensor:
    """One number for each of the keys, or of the queries."""
    q, k, v, x = _dense(operator.q, operator.k, values, x)
    batch, heads, queries, width = q.shape
    channels = v.shape[-1]
    out = torch.empty(batch, heads, length, device=q.device, dtype=torch.float32)
    mask, strides, kind = _mask_of(operator)
    bd, bc = max(16, triton.next_power_of_2(width)), max(16, triton.next_power_of_2(channels))
    bm, bn, warps, stages = _tile_of_sums(max(bd, bc), queries, q.dtype)
    kernel[(triton.cdiv(length, bn if by_key else bm) * batch * heads,)](
        q, k, x, v, _lse_of(operator), mask, out, operator.factor * LOG2E,
        *q.stride()[:3], *k.stride()[:3], *x.stride()[:3], *v.stride()[:3], *strides,
        heads, operator.group, queries, k.shape[-2], width, channels,
        CAUSAL=operator.causal, MASK=kind, PRECISION=_precision(q.dtype), ACROSS=length <= SHORT,
        EVEN=(width, channels) == (bd, bc) and not queries % bm and not k.shape[-2] % bn,
        BM=bm, BN=bn, BD=bd, BC=bc, num_warps=warps, num_stages=stages, **more,
    )  # fmt: skip
    return out


def _dense(*tensors: Tensor) -> list[Tensor]:
    """Channels side by side."""
    return [t if t.stride(-1) == 1 else t.contiguous() for t in tensors]


def _lse_of(operator: AttentionOperator) -> Tensor:
    if operator.lse is None:
        return log_sum_exp(operator)
    return _in_base_two(operator.lse, *operator.q.shape[:3])


def transposed(operator: AttentionOperator, x: Tensor) -> Tensor:
    """Pᵀ x: (batch, key head, key, channel)."""
    q, k, x = _dense(operator.q, operator.k, x)
    batch, heads, queries, width = q.shape
    keys, channels = k.shape[-2], x.shape[-1]
    lse = _lse_of(operator)
    out = _laid_out_like(k, channels, x.dtype)
    mask, strides, kind = _mask_of(operator)
    bd, bc = max(16, triton.next_power_of_2(width)), max(16, triton.next_power_of_2(channels))
    even = (width, channels) == (bd, bc) and not queries % 128 and not keys % 128
    bm, bn, warps, stages = _tile(max(bd, bc), queries, q.dtype, even=even)
    _transposed[(triton.cdiv(keys, bn) * batch * k.shape[1],)](
        q, k, x, lse, mask, out, operator.factor * LOG2E,
        *q.stride()[:3], *k.stride()[:3], *x.stride()[:3], *out.stride()[:3], *strides,
        heads, operator.group, queries, keys, width, channels,
        CAUSAL=operator.causal, MASK=kind, PRECISION=_precision(q.dtype), ACROSS=keys <= SHORT, EVEN=even,
        BM=bm, BN=bn, BD=bd, BC=bc, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def _laid_out_like(k: Tensor, channels: int, dtype: torch.dtype) -> Tensor:
    """Room for (batch, key head, key, channel), with the heads of a key side by side where those of `k` are: models cut
    heads out of one vector, and the gradient goes back into it without a copy.
    """
    batch, heads, keys, _ = k.shape
    if k.stride(1) < k.stride(2):
        return torch.empty(batch, keys, heads, channels, device=k.device, dtype=dtype).transpose(1, 2)
    return torch.empty(batch, heads, keys, channels, device=k.device, dtype=dtype)


def log_sum_exp(operator: AttentionOperator) -> Tensor:
    """(batch, head, query): log₂ Σ exp of the scores. Infinite where a query may look nowhere, so that p = 0."""
    q, k = _dense(operator.q, operator.k)
    batch, heads, queries, width = q.shape
    out = torch.empty(batch, heads, queries, device=q.device, dtype=torch.float32)
    mask, strides, kind = _mask_of(operator)
    bd = max(16, triton.next_power_of_2(width))
    bm, bn, warps, stages = _tile(bd, queries, q.dtype)
    _log_sum_exp[(triton.cdiv(queries, bm) * batch * heads,)](
        q, k, mask, out, operator.factor * LOG2E, *q.stride()[:3], *k.stride()[:3], *strides,
        heads, operator.group, queries, k.shape[-2], width,
        CAUSAL=operator.causal, MASK=kind, PRECISION=_precision(q.dtype),
        BM=bm, BN=bn, BD=bd, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def _in_base_two(lse: Tensor, batch: int, heads: int, queries: int) -> Tensor:
    """What a fused kernel calls its log-sum-exp: natural, perhaps with an axis of one, perhaps padded."""
    plain = lse.reshape(batch, heads, -1)[:, :, :queries].float() * LOG2E
    return torch.where(plain == -torch.inf, torch.inf, plain).contiguous()


def _mask_of(operator: AttentionOperator) -> tuple[Any, tuple[int, ...], int]:
    """The mask as the kernel reads it: tensor, strides (zero where it is broadcast), and what it holds."""
    if operator.mask is None:
        return operator.q, (0, 0, 0, 0), 0
    batch, heads, queries, _ = operator.q.shape
    mask = operator.mask.expand(batch, heads, queries, operator.k.shape[-2])
    return (mask.view(torch.uint8), mask.stride(), 1) if mask.dtype == torch.bool else (mask, mask.stride(), 2)


def _tile(width: int, queries: int, dtype: torch.dtype, *, even: bool = False) -> tuple[int, int, int, int]:
    """Queries and keys in a tile, warps, stages: the quickest of eleven on an H200, at 512 to 32,768 tokens."""
    if dtype == torch.float32:
        return (32, 64, 4, 2) if width <= 128 else (16, 32, 4, 2)
    if width <= 64:
        if even and 4096 < queries <= SHORT:
            return (64, 128, 4, 3)
        return (128, 64, 4, 3) if queries > 4096 else (64, 64, 4, 3)
    return (32, 128, 4, 4) if width <= 128 else (32, 64, 4, 2)


def _tile_of_sums(width: int, queries: int, dtype: torch.dtype) -> tuple[int, int, int, int]:
    """The same for sums over rows and columns, at 16,384 tokens."""
    return (64, 128, 4, 3) if width <= 64 and dtype != torch.float32 else _tile(width, queries, dtype)


def _precision(dtype: torch.dtype) -> str:
    return "ieee" if dtype == torch.float32 else "tf32"
