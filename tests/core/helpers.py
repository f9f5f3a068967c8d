"""What the tests of the core share: explain a function of a float tensor, and close the books."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.reference.detached import gradient_times_input
from whence.core.batch import Batch
from whence.core.propagation import Propagation, propagate
from whence.core.recipe import Recipe, recipes

__all__ = ["CLOSE", "PRESETS", "Refusing", "books", "explain", "explain_ids", "normal", "reference", "seed_for"]

PRESETS = tuple("gi ah ln ah_ln exact cp_lrp attn_lrp libragrad gim".split())

# float64 has 16 digits; sums here have at most some thousand terms of size about 1 and cancel by at most 1e3.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal numbers that depend on shape and seed alone."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def seed_for(y: Tensor) -> Tensor:
    """The weights with which the target sums an output, the same for every example: g = ∂f/∂y."""
    return normal(*y.shape[1:], seed=99, dtype=y.dtype)


def summed(y: Tensor) -> Tensor:
    return (y * seed_for(y)).flatten(1).sum(1)


def explain(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    recipe: Recipe | str = "exact",
    target: Callable[[Any], Tensor] = summed,
    **options: Any,
) -> Propagation:
    """Explain Σ g·f(x) by the elements of x (batch first)."""
    recipe = recipes[recipe] if isinstance(recipe, str) else recipe
    return propagate(lambda i: f(i["x"]), Batch.of({"x": x}, "x"), target=target, recipe=recipe, **options)


def explain_ids(
    f: Callable[[Tensor], Tensor],
    ids: Tensor,
    recipe: Recipe | str = "exact",
    target: Callable[[Any], Tensor] = summed,
    **options: Any,
) -> Propagation:
    """The same for a function of token ids."""
    recipe = recipes[recipe] if isinstance(recipe, str) else recipe
    return propagate(lambda i: f(i["ids"]), Batch.of({"ids": ids}, "ids"), target=target, recipe=recipe, **options)


def reference(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Relevance of x for the same target, by plain autograd through `f`."""
    y = f(x)
    return gradient_times_input(f, x, seed_for(y))


def books(done: Propagation) -> Tensor:
    """What is missing from inputs + sinks = target, per example."""
    assert done.ledger is not None
    assert done.ledger.is_split
    return done.inputs + sum(done.sinks.values()) - done.target


WAITS = (
    "_local_scalar_dense",
    "nonzero",
    "_unique2",
    "unique_dim",
    "is_nonzero",
    "equal",
    "lift_fresh",
    "masked_select",
)
"""Functions for which the host waits for a GPU, or gives it numbers of its own: neither can be recorded."""


class Refusing(TorchDispatchMode):
    """Refuses what can't be recorded."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        if name in WAITS or (name == "index" and any(t is not None and t.dtype == torch.bool for t in args[1])):
            raise RuntimeError(f"{name} in a recording")
        return func(*args, **(kwargs or {}))
