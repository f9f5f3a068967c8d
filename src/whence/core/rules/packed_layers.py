"""Linear layers whose weight is packed: as any linear layer, over the weight as it is dequantised."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from whence.core.call import Call, Rule
from whence.core.packed import NAME, packed_linear
from whence.core.recipe import Epsilon, Plain, Recipe
from whence.core.reweighing import reweighed

__all__ = ["rules", "spelled_out"]


def layer(call: Call) -> Any:
    """y = x Wᵀ + b + rest: x hands on what it gets, b is a bias, and the rest, of rounding x, is booked by name."""
    x, value, packed = call.args
    rule = call.recipe.linear
    if isinstance(rule, Epsilon):
        return reweighed(call, rule, lambda x, *_: packed_linear(x, value, packed), x, value, None)
    if not isinstance(rule, Plain):
        return spelled_out(call)
    out = call.measured("quantised")
    if packed.bias is not None:
        call.book("bias", out, packed.bias)
        call.book("quantised", out, -packed.bias)
    return out


def spelled_out(call: Call) -> Any:
    """The layer over its weight, unpacked: for the rules that weigh each of its numbers."""
    x, value, packed = call.args
    bias = packed.bias
    with call.interception:
        out = F.linear(x, packed.weight().to(x), None if bias is None else bias.to(x))
        return out + (value - out.detach())


def rules(recipe: Recipe) -> dict[str, Rule]:
    return {NAME: layer}
