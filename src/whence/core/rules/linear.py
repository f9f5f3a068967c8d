"""Linear and convolution layers: the plain gradient, or LRP's ε, γ and z⁺ rules."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from whence.core.call import Call, Rule, is_tainted
from whence.core.recipe import LinearRule, Plain, Recipe
from whence.core.reweighing import reweighed
from whence.core.rules.products import shared

__all__ = ["CONVOLUTIONS", "rules"]

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def layer(rule: LinearRule) -> Rule:
    """The rule for F.linear and the convolutions under a choice of the recipe."""

    def apply(call: Call) -> Any:
        x, weight, bias = call.argument(0, "input"), call.argument(1, "weight"), call.argument(2, "bias")
        if is_tainted(weight) or is_tainted(bias):  # what the input made: a product of two, and a sum
            return _made_by_input(call, x, weight, bias)
        if not is_tainted(x):
            return call.run()
        if not isinstance(rule, Plain):
            return reweighed(call, rule, lambda x, w, b: _at(call, x, w, b).run(), x, weight, bias)
        out = call.run()
        if bias is not None:
            call.book("bias", out, _aligned(bias, call.name))
        return out

    return apply


def _at(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None) -> Call:
    return call.replaced(0, "input", x).replaced(1, "weight", weight).replaced(2, "bias", bias)


def _made_by_input(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    product = _at(call, x, weight, None)
    both = is_tainted(x) and is_tainted(weight)
    out = shared(product, 0.5 if call.recipe.product != "gradient" else 1.0, "product") if both else product.run()
    if bias is None:
        return out
    out = out + _aligned(bias, call.name)
    if not is_tainted(bias):
        call.book("bias", out, _aligned(bias, call.name))
    elif not (is_tainted(x) or is_tainted(weight)):
        call.book("constant", out, product.run())
    return out


def _aligned(bias: Tensor, name: str) -> Tensor:
    """The bias of a convolution stands on the channel axis."""
    return bias if name == "linear" else bias.reshape(-1, *[1] * int(name[-2]))


def rules(recipe: Recipe) -> dict[str, Rule]:
    return {"linear": layer(recipe.linear), **dict.fromkeys(CONVOLUTIONS, layer(recipe.conv))}
