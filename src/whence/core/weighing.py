"""An interception that weighs what every single call takes in against what it hands on.

The default receipt books the sinks that rules declare. The audit does not trust them: it puts a scale before and
behind each call. What a call takes in, less what it hands on, less what its rule declared, is a *leak*, and it has
the name of a function and of a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from whence.core.call import Call, Rule, origin_of
from whence.core.interception import Interception
from whence.core.ledger import Ledger
from whence.core.naming import name_of
from whence.core.propagation import Propagation, propagate
from whence.core.recipe import Recipe

__all__ = ["AuditInterception", "audited"]


class AuditInterception(Interception):
    """Weighs every call. `flows[entry]` is in − out per example, under the kind "flow"."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        assert isinstance(self.ledger, Ledger)
        self.scale = Ledger(self.ledger.examples, self.ledger.length)
        self.scale._names = self.ledger._names

    def _apply(self, rule: Rule, call: Call) -> Any:
        if name_of(call.func).inplace:
            return rule(call)
        inputs = {id(t): t for t in call.tainted()}

        def compute(*watched: Tensor) -> Any:
            swap = dict(zip(inputs, watched, strict=True))
            return rule(call.mapped(lambda t: swap.get(id(t), t)))

        for t in inputs.values():
            origin_of(t, create=True)  # before it is copied: original and copy must have the same one
        return self.scale.measure("flow", call.name, list(inputs.values()), compute, apart=True)

    def leaks(self) -> dict[tuple[str, str], float]:
        """Per (function, layer): in − out − declared sinks, summed over examples."""
        declared: dict[tuple[str, str], float] = {}
        for books in (self.ledger.amounts, self.ledger.unsplit):  # type: ignore[attr-defined]
            for entry, amount in books.items():
                key = (entry.function, entry.layer)
                declared[key] = declared.get(key, 0.0) + float(amount.sum())
        total: dict[tuple[str, str], float] = {}
        for books in (self.scale.amounts, self.scale.unsplit):
            for entry, amount in books.items():
                key = (entry.function, entry.layer)
                total[key] = total.get(key, 0.0) + float(amount.sum())
        return {key: total.get(key, 0.0) - declared.get(key, 0.0) for key in {*total, *declared} if key in total}


def audited(
    forward: Callable[[dict[str, Any]], Any],
    inputs: dict[str, Any],
    sources: tuple[str, ...],
    target: Callable[[Any], Tensor],
    recipe: Recipe,
    module: nn.Module,
) -> tuple[Propagation, dict[tuple[str, str], float]]:
    """A propagation in which every call is weighed, and the leaks by (function, layer)."""
    made: list[AuditInterception] = []

    def interception(*args: Any, **kwargs: Any) -> AuditInterception:
        made.append(AuditInterception(*args, **kwargs))
        return made[0]

    done = propagate(
        forward,
        inputs,
        sources=sources,
        target=target,
        recipe=recipe,
        receipt="layers",
        module=module,
        interception=interception,
    )
    return done, made[0].leaks()
