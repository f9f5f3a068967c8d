"""The table of rules that a recipe stands for. One module for each kind of function:

structure    moves, sums, joins with constants         linear, with sinks
linear       F.linear, convolutions                    Plain, ε, γ, z⁺
products     x·y, x/y, matrix products                 gradient, half, detach
activations  GELU, tanh, exp, pow, roots, …            gradient, slope, gate
norms        LayerNorm, RMSNorm, group and batch norm  gradient, detach, detach_mean, identity
softmax      softmax, fused and multi-head attention   gradient, detach, temperature
"""

from __future__ import annotations

from whence.core.call import Rule
from whence.core.naming import name_of
from whence.core.recipe import Recipe
from whence.core.rules import activations, linear, norms, products, softmax, structure

__all__ = ["table"]


def table(recipe: Recipe) -> dict[str, Rule]:
    """Canonical function name to rule, for one recipe. The recipe's own rules win."""
    merged: dict[str, Rule] = {}
    for kind in (structure, linear, products, activations, norms, softmax):
        merged.update(kind.rules(recipe))
    for function, rule in recipe.rules.items():
        merged[function if isinstance(function, str) else name_of(function).name] = rule
    return merged
