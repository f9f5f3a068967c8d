"""A layer z = x W + b under LRP's ε, γ and z⁺ rules, in Gradient×Input form.

A rule that weighs the contributions z_ij = x_i w_ij anew computes z̃_j = Σ_i z̃_ij and returns z̃_j · [z_j / z̃_j]: the
value is z_j, the gradient shares z_j out by z̃_ij / z̃_j.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from whence.core.backward import on_gradient
from whence.core.call import Call
from whence.core.numerics import divide
from whence.core.recipe import Epsilon, Gamma, LinearRule, ZPlus

__all__ = ["Layer", "reweighed"]

Layer = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""Input, weight and bias to output."""


def reweighed(call: Call, rule: LinearRule, layer: Layer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The layer under a rule; what its bias keeps is booked."""
    if isinstance(rule, Epsilon):
        return _epsilon(call, rule.epsilon, lambda x: layer(x, weight, bias), x)
    assert isinstance(rule, (Gamma, ZPlus))
    return _signed(call, rule.gamma if isinstance(rule, Gamma) else None, layer, x, weight, bias)


def _epsilon(call: Call, epsilon: float, run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """R_i = Σ_j z_ij / (z_j + ε sign z_j) R_j: the gradient of z_j, times z_j / (z_j + ε sign z_j)."""

    def compute(x: Tensor) -> Tensor:
        z = run(x)
        share = divide(z.detach(), z.detach(), epsilon)
        on_gradient(z, lambda grad: grad * share)
        node: Tensor = z * 1.0  # a node of its own, so that the ledger sees the gradient before the share is taken
        return node

    made: Tensor = call.measure("bias", [x], compute)
    return made


def _signed(call: Call, gamma: float | None, layer: Layer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """γ-rule on signed contributions: those of the output's own sign count 1 + γ times (z⁺: those alone)."""

    def compute(x: Tensor) -> Tensor:
        z = layer(x.detach(), weight, bias)
        positive, negative = weight.clamp(min=0), weight.clamp(max=0)
        if gamma is None:
            up_weight, down_weight, b_up, b_down = positive, negative, _clamp(bias, 0, None), _clamp(bias, None, 0)
        else:
            up_weight, down_weight = weight + gamma * positive, weight + gamma * negative
            b_up = None if bias is None else bias + gamma * bias.clamp(min=0)
            b_down = None if bias is None else bias + gamma * bias.clamp(max=0)
        plus, minus = x.clamp(min=0), x.clamp(max=0)
        up = layer(plus, up_weight, b_up) + layer(minus, down_weight, None)
        down = layer(plus, down_weight, b_down) + layer(minus, up_weight, None)
        shared = torch.where(z > 0, up, down)
        return shared * divide(z, shared.detach(), 1e-9)

    made: Tensor = call.measure("bias", [x], compute)
    return made


def _clamp(bias: Tensor | None, low: float | None, high: float | None) -> Tensor | None:
    return None if bias is None else bias.clamp(min=low, max=high)
