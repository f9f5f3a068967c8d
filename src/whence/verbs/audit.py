"""`whence.audit`: conservation by function and by layer."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from whence.core.recipe import Recipe, recipes
from whence.core.weighing import weighed
from whence.errors import InputError
from whence.models.asking import TargetScores
from whence.models.loading import load
from whence.models.refusing import in_words
from whence.results.audit_report import Audit, AuditRow

__all__ = ["audit"]


def audit(model: Any, inputs: Any, *, recipe: str | Recipe = "exact", target: Any = None) -> Audit:
    """Weigh every call of the forward pass: what came in, what went on, what was absorbed, what leaked.

    >>> import whence
    >>> print(whence.audit("sentiment", "a gem").conservation.relative_error < 1e-4)
    True
    """
    adapter = load(model)
    examples, single = adapter.encode(inputs)
    if not single:
        raise InputError("audit takes one input; call it in a loop for several")
    chosen = recipes[recipe] if isinstance(recipe, str) else recipe
    example, goal = adapter.aim(examples[0], target)
    batch = adapter.collate([example])
    score = TargetScores(adapter, batch, [goal])
    with in_words(adapter, example):
        done, leaks = weighed(adapter.forward, batch, score, chosen, adapter.module)
    assert done.ledger is not None
    rows: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for books in (done.ledger.amounts, done.ledger.unsplit):
        for entry, amount in books.items():
            held, kind = rows[(entry.function, entry.module)], done.ledger.kind_of(entry)
            held[kind] = held.get(kind, 0.0) + float(amount.sum())
    table = tuple(
        AuditRow(
            layer=module, function=function, sinks=dict(rows.get((function, module), {})), leak=leaks.get(key, 0.0)
        )
        for key in dict.fromkeys([*leaks, *rows])
        for function, module in [key]
    )
    return Audit(
        model=adapter.name,
        recipe=chosen.name,
        target=score.names[0],
        inputs=float(done.inputs[0]),
        target_score=float(done.target[0]),
        rows=table,
        unruled=tuple(sorted({*done.unruled, *done.bypasses})),
    )
