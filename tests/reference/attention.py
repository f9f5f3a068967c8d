"""Softmax attention of one head with every derivative written out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["attention_relevance", "probabilities"]


def probabilities(q: Tensor, k: Tensor, allowed: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    """softmax_j(q_i · k_j / √d / T), zero where attention is not allowed."""
    n, m, d = len(q), len(k), q.shape[-1]
    p = torch.zeros(n, m, dtype=torch.float64)
    for i in range(n):
        for j in range(m):
            if allowed is None or allowed[i, j]:
                p[i, j] = math.exp(float(q[i] @ k[j]) / math.sqrt(d) / temperature)
        p[i] /= p[i].sum()
    return p


def attention_relevance(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grad: Tensor,
    *,
    softmax: str | float,
    scores: float = 1.0,
    values: float = 1.0,
    allowed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Relevance of q, k and v for y_i = Σ_j P_ij v_j, all (length, d).

    `softmax` is "detach" (AH: P is a constant), "gradient" (the Jacobian P_j (δ_jl - P_l)), or a temperature T: the
    Jacobian at softmax(s/T), without the factor 1/T (GIM). `scores`, `values` scale what q and k, and v, receive.
    """
    n, m, d = len(q), len(k), q.shape[-1]
    p = probabilities(q, k, allowed)
    grad_q, grad_k, grad_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for i in range(n):
        for j in range(m):
            grad_v[j] += values * p[i, j] * grad[i]
    if softmax != "detach":
        soft = p if softmax == "gradient" else probabilities(q, k, allowed, float(softmax))
        for i in range(n):
            towards = [float(grad[i] @ v[j]) for j in range(m)]  # ∂f/∂P_ij
            for j in range(m):
                score = sum(towards[n] * float(soft[i, n]) * (float(j == n) - float(soft[i, j])) for n in range(m))
                grad_q[i] += scores * score * k[j] / math.sqrt(d)
                grad_k[j] += scores * score * q[i] / math.sqrt(d)
    return q * grad_q, k * grad_k, v * grad_v
