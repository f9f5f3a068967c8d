"""A table of rules on scales: what every single call takes in is weighed against what it hands on.

The default receipt books the sinks that rules declare. Here they are not trusted: a scale stands before and behind
each call. What a call takes in, less what it hands on, less what its rule declared, is a *leak*, and it has the name of
a function and of a module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from whence.core.batch import Batch
from whence.core.call import Call, Rule, origin_of
from whence.core.ledger import Ledger
from whence.core.propagation import Forward, Propagation, propagate
from whence.core.recipe import Recipe
from whence.core.rules import table

__all__ = ["weighed"]


def weighed(
    forward: Forward, batch: Batch, target: Callable[[Any], Tensor], recipe: Recipe, module: nn.Module
) -> tuple[Propagation, dict[tuple[str, str], float]]:
    """A propagation in which every call is weighed, and the leaks by (function, module), summed over examples."""
    scale = Ledger(batch.examples, module)
    on_scales = lambda recipe: {name: _on(scale, rule) for name, rule in table(recipe).items()}
    done = propagate(forward, batch, target=target, recipe=recipe, modules=module, rules=on_scales)
    assert done.ledger is not None
    declared, flows = _by_place(done.ledger), _by_place(scale)
    return done, {key: flow - declared.get(key, 0.0) for key, flow in flows.items()}


def _on(scale: Ledger, rule: Rule) -> Rule:
    """`rule`, with everything that passes it on a scale."""

    def weigh(call: Call) -> Any:
        inputs = list({id(t): t for t in call.tainted()}.values())
        if call.is_in_place or not inputs:
            return rule(call)
        for t in inputs:
            origin_of(t, create=True)  # before it is copied: original and copy must have the same one
        compute = lambda *watched: rule(call.with_inputs(inputs, watched))
        return scale.measure("flow", call.name, inputs, compute, call.layout, apart=True)

    weigh.in_place_is_fine = getattr(rule, "in_place_is_fine", False)  # type: ignore[attr-defined]
    return weigh


def _by_place(ledger: Ledger) -> dict[tuple[str, str], float]:
    total: dict[tuple[str, str], float] = {}
    for books in (ledger.amounts, ledger.unsplit):
        for entry, amount in books.items():
            key = (entry.function, entry.module)
            total[key] = total.get(key, 0.0) + float(amount.sum())
    return total
