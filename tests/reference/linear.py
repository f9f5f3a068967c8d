"""ε-, γ- and z⁺-rules on explicit contributions z_ij = x_i w_ij [Bach 2015; Montavon 2019; Andéol 2021]."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

__all__ = ["conv_matrix", "linear_relevance"]


def linear_relevance(x: Tensor, weight: Tensor, bias: Tensor, grad: Tensor, rule: str, amount: float = 0.0) -> Tensor:
    """R_i = Σ_j share_ij R_j with R_j = z_j g_j, z_j = Σ_i x_i w_ji + b_j. One vector x."""
    out = torch.zeros(len(x), dtype=torch.float64)
    for j in range(len(bias)):
        contributions = [float(x[i] * weight[j, i]) for i in range(len(x))] + [float(bias[j])]
        z = sum(contributions)
        relevance = z * float(grad[j])
        shares = _shares(contributions, z, rule, amount)
        for i in range(len(x)):
            out[i] += shares[i] * relevance
    return out


def _shares(contributions: list[float], z: float, rule: str, amount: float) -> list[float]:
    """How z is split among the inputs and, last, the bias."""
    sign = 1 if z > 0 else -1
    if rule == "plain":
        return [c / z for c in contributions]
    if rule == "epsilon":
        return [c / (z + sign * amount) for c in contributions]
    agrees = [c * sign > 0 for c in contributions]
    if rule == "zplus":
        counted = [c if a else 0.0 for c, a in zip(contributions, agrees, strict=True)]
    else:  # gamma: contributions of the output's own sign count 1 + γ times
        counted = [c * (1 + amount) if a else c for c, a in zip(contributions, agrees, strict=True)]
    return [c / sum(counted) for c in counted]


def conv_matrix(weight: Tensor, size: tuple[int, int], stride: int, padding: int, groups: int = 1) -> Tensor:
    """The matrix of a 2d convolution from flat (channel, row, column) to flat (channel, row, column)."""
    channels_out, per_group, height, width = weight.shape
    channels_in = per_group * groups
    rows, columns = ((s + 2 * padding - k) // stride + 1 for s, k in zip(size, (height, width), strict=True))
    matrix = torch.zeros(channels_out, rows, columns, channels_in, *size, dtype=torch.float64)
    for o, r, c, i, a, b in itertools.product(*map(range, (channels_out, rows, columns, per_group, height, width))):
        channel = o // (channels_out // groups) * per_group + i
        y, x = r * stride + a - padding, c * stride + b - padding
        if 0 <= y < size[0] and 0 <= x < size[1]:
            matrix[o, r, c, channel, y, x] = weight[o, i, a, b]
    return matrix.reshape(channels_out * rows * columns, -1)
