"""LayerNorm and RMSNorm of one vector, their Jacobian written out [Ali et al. 2022, eq. 10; Achtibat et al. 2024]."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["group_norm_relevance", "layer_norm_relevance", "rms_norm_relevance"]


def layer_norm_relevance(x: Tensor, weight: Tensor, grad: Tensor, eps: float, mode: str) -> Tensor:
    """R_i = x_i Σ_j ∂y_j/∂x_i g_j for y_j = w_j (x_j - m) / σ + b_j, with parts of it held constant."""
    n = len(x)
    mean = sum(x.tolist()) / n
    sigma = math.sqrt(sum((v - mean) ** 2 for v in x.tolist()) / n + eps)
    normal = [(v - mean) / sigma for v in x.tolist()]
    out = torch.zeros(n, dtype=torch.float64)
    for i in range(n):
        if mode == "identity":  # R_i = R_j without the bias
            out[i] = weight[i] * normal[i] * grad[i]
            continue
        for j in range(n):
            jacobian = float(i == j)
            if mode != "detach_mean":
                jacobian -= 1 / n
            if mode == "gradient":
                jacobian -= normal[i] * normal[j] / n
            out[i] += x[i] * weight[j] / sigma * jacobian * grad[j]
    return out


def rms_norm_relevance(x: Tensor, weight: Tensor, grad: Tensor, eps: float, mode: str) -> Tensor:
    """The same for y_j = w_j x_j / r with r = sqrt(mean(x²) + ε)."""
    n = len(x)
    r = math.sqrt(sum(v * v for v in x.tolist()) / n + eps)
    out = torch.zeros(n, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            jacobian = float(i == j)
            if mode == "gradient":
                jacobian -= float(x[i] * x[j]) / (n * r * r)
            out[i] += x[i] * weight[j] / r * jacobian * grad[j]
    return out


def group_norm_relevance(x: Tensor, weight: Tensor, grad: Tensor, groups: int, eps: float, mode: str) -> Tensor:
    """Layer norm of each group of channels; x is (channel, place), the weight one number per channel."""
    size = len(x) // groups
    out = torch.zeros_like(x)
    for g in range(groups):
        rows = slice(g * size, (g + 1) * size)
        every = weight[rows, None].expand_as(x[rows]).reshape(-1)
        out[rows] = layer_norm_relevance(x[rows].reshape(-1), every, grad[rows].reshape(-1), eps, mode).view(size, -1)
    return out
