"""How far apart two distributions are, on the last axis."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["MOST", "divergence", "jensen_shannon", "negentropy", "total_variation"]

MOST = math.log(2)
"""The largest Jensen-Shannon divergence there is, in nats: .693."""


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """TVD(p, q) = ½ Σ |p − q|, from 0 to 1 [Jain & Wallace 2019, §4].

    >>> total_variation(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])).item()
    1.0
    """
    return (p - q).abs().sum(-1) / 2


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """JSD(p, q) = ½ KL(p ‖ m) + ½ KL(q ‖ m) with m = (p + q)/2, in nats, from 0 to log 2 [Jain & Wallace 2019, §4].

    Where a weight is 0 its term is 0, in the value and in the gradient.
    """
    return divergence(p, q, negentropy(p), negentropy(q))


def divergence(p: Tensor, q: Tensor, of_p: Tensor, of_q: Tensor) -> Tensor:
    """The same from negentropies that are known already: ½ N(p) + ½ N(q) − N(m)."""
    return ((of_p + of_q) / 2 - negentropy((p + q) / 2)).clamp_min(0)


def negentropy(p: Tensor) -> Tensor:
    """N(p) = Σ p log p, with 0 log 0 = 0 and no infinite slope there."""
    return (p * p.clamp_min(torch.finfo(p.dtype).tiny).log()).sum(-1)
