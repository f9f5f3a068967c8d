"""Linear and convolution layers: the plain gradient, or LRP's ε, γ and z⁺ rules in Gradient×Input form.

A rule that weights the contributions z_ij = x_i w_ij anew computes z̃_j = Σ_i z̃_ij and returns z̃_j · [z_j / z̃_j]:
the value is z_j, the gradient shares z_j out by z̃_ij / z̃_j.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from whence.core.backward import on_gradient
from whence.core.call import Call, Rule, is_tainted
from whence.core.numerics import divide
from whence.core.recipe import Epsilon, Gamma, LinearRule, Plain, Recipe, ZPlus
from whence.core.rules.products import half

__all__ = ["rules"]

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def layer(rule: LinearRule) -> Rule:
    """The rule for F.linear and the convolutions under a choice of the recipe."""
    reweigh = None if isinstance(rule, Plain) else _reweigh(rule)

    def apply(call: Call) -> Any:
        x, weight, bias = call.argument(0, "input"), call.argument(1, "weight"), call.argument(2, "bias")
        if is_tainted(weight):  # a weight that the input made: a product of two
            if not is_tainted(x):
                return call.run()
            return half(call, 1.0 if call.recipe.product == "gradient" else 0.5, "product")
        if not is_tainted(x):
            return call.run()
        if reweigh is not None:
            return reweigh(call, x, weight, bias)
        out = call.run()
        if bias is not None:
            call.book("bias", out, _aligned(bias, call.name))
        return out

    return apply


def _aligned(bias: Tensor, name: str) -> Tensor:
    """The bias of a convolution stands on the channel axis."""
    return bias if name == "linear" else bias.reshape(-1, *[1] * int(name[-2]))


def _reweigh(rule: LinearRule) -> Callable[[Call, Tensor, Tensor, Tensor | None], Tensor]:
    if isinstance(rule, Epsilon):
        return lambda call, x, w, b: _epsilon(call, x, rule.epsilon)
    if isinstance(rule, ZPlus):
        return lambda call, x, w, b: _signed(call, x, w, b, None)
    assert isinstance(rule, Gamma)
    return lambda call, x, w, b: _signed(call, x, w, b, rule.gamma)


def _epsilon(call: Call, x: Tensor, epsilon: float) -> Tensor:
    """R_i = Σ_j z_ij / (z_j + ε sign z_j) R_j: the gradient of z_j, times z_j / (z_j + ε sign z_j)."""

    def compute(x: Tensor) -> Tensor:
        z = call.replaced(0, "input", x).run()
        share = divide(z.detach(), z.detach(), epsilon)
        on_gradient(z, lambda grad: grad * share)
        node: Tensor = z * 1.0  # a node of its own, so that the ledger sees the gradient before the share is taken
        return node

    made: Tensor = call.measure("bias", [x], compute)
    return made


def _signed(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None, gamma: float | None) -> Tensor:
    """γ-rule on signed contributions: those of the output's own sign count 1 + γ times (z⁺: those alone)."""

    def compute(x: Tensor) -> Tensor:
        z = call.replaced(0, "input", x.detach()).run()
        positive, negative = weight.clamp(min=0), weight.clamp(max=0)
        if gamma is None:
            up_weight, down_weight, b_up, b_down = positive, negative, _clamp(bias, 0, None), _clamp(bias, None, 0)
        else:
            up_weight, down_weight = weight + gamma * positive, weight + gamma * negative
            b_up = None if bias is None else bias + gamma * bias.clamp(min=0)
            b_down = None if bias is None else bias + gamma * bias.clamp(max=0)
        plus, minus = x.clamp(min=0), x.clamp(max=0)

        def run(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            made: Tensor = call.replaced(0, "input", x).replaced(1, "weight", w).replaced(2, "bias", b).run()
            return made

        up = run(plus, up_weight, b_up) + run(minus, down_weight, None)
        down = run(plus, down_weight, b_down) + run(minus, up_weight, None)
        shared = torch.where(z > 0, up, down)
        return shared * divide(z, shared.detach(), 1e-9)

    made: Tensor = call.measure("bias", [x], compute)
    return made


def _clamp(bias: Tensor | None, low: float | None, high: float | None) -> Tensor | None:
    return None if bias is None else bias.clamp(min=low, max=high)


def rules(recipe: Recipe) -> dict[str, Rule]:
    return {"linear": layer(recipe.linear), **dict.fromkeys(CONVOLUTIONS, layer(recipe.conv))}
