"""The table of rules that a recipe stands for. One module for each kind of function:

structure    moves, sums, joins with constants         linear, with sinks
linear       F.linear, convolutions                    Plain, ε, γ, z⁺
packed_layers linear layers with quantised weights     the same
products     x·y, x/y, matrix products                 gradient, half, detach
activations  GELU, tanh, exp, pow, roots, …            gradient, slope, gate
norms        LayerNorm, RMSNorm, group and batch norm  gradient, detach, detach_mean, identity
softmax      softmax, fused and multi-head attention   gradient, detach, temperature
"""

from __future__ import annotations

from whence.core.call import Rule
from whence.core.naming import name_of
from whence.core.recipe import Recipe
from whence.errors import InputError
from whence.registry import load_all

__all__ = ["table"]

KINDS = load_all(__name__, __path__)


def table(recipe: Recipe) -> dict[str, Rule]:
    """Canonical function name to rule, for one recipe. The recipe's own rules win."""
    merged: dict[str, Rule] = {}
    for kind in KINDS:
        own = kind.rules(recipe)
        if both := sorted(merged.keys() & own.keys()):
            raise InputError(f"{kind.__name__} has a rule for {both[0]}, and another module has one already")
        merged.update(own)
    for function, rule in recipe.rules.items():
        merged[function if isinstance(function, str) else name_of(function).name] = rule
    return merged
