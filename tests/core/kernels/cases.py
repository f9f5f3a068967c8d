"""Maps of every kind, and what their transpose times something is, by the formula in float64."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tests.core.helpers import normal
from whence.core.kernels.attention_map import AttentionOperator

__all__ = ["MASKS", "SHAPES", "operator", "wanted", "written_down"]

SHAPES = {  # batch, query heads, key heads, queries, keys, channels
    "square": (2, 4, 4, 37, 37, 16),
    "groups": (2, 4, 2, 37, 37, 16),
    "one key head": (1, 4, 1, 130, 130, 32),
    "other keys": (1, 2, 2, 70, 40, 24),
    "whole blocks": (1, 4, 2, 256, 128, 16),
}
MASKS = ("none", "causal", "forbidden", "added", "window", "one for all heads")


def operator(shape: str, mask: str, dtype: torch.dtype = torch.float64) -> AttentionOperator:
    batch, heads, groups, queries, keys, width = SHAPES[shape]
    q, k = normal(batch, heads, queries, width, dtype=dtype), normal(batch, groups, keys, width, seed=1, dtype=dtype)
    made = AttentionOperator(q, k, causal=mask == "causal", scale=0.3 if mask == "added" else None)
    if mask == "added":
        return replace(made, mask=normal(1, heads, queries, keys, seed=2, dtype=dtype))
    if mask == "one for all heads":
        return replace(made, mask=normal(queries, keys, seed=2, dtype=dtype)[None, None])
    allowed = normal(batch, 1, queries, keys, seed=3) > -0.5
    allowed[0, 0, 3] = False  # a query that may look nowhere
    allowed[0, 0, :, 5] = False  # a key that nobody sees
    if mask == "window":
        near = (torch.arange(queries)[:, None] - torch.arange(keys)).abs() < 4
        allowed = near[None, None]
    return replace(made, mask=allowed) if mask in ("forbidden", "window") else made


def written_down(made: AttentionOperator) -> Tensor:
    """P, (batch, head, query, key)."""
    scores = made.q.double() @ made.k.double().repeat_interleave(made.group, 1).mT * made.factor
    if made.causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    if made.mask is not None:
        boolean = made.mask.dtype == torch.bool
        scores = scores.masked_fill(~made.mask, -torch.inf) if boolean else scores + made.mask.double()
    return torch.softmax(scores, -1).nan_to_num(0.0)


def wanted(made: AttentionOperator, x: Tensor) -> Tensor:
    return (written_down(made).mT @ x.double()).unflatten(1, (-1, made.group)).sum(2)
