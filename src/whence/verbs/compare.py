"""`whence.compare`: one input, several methods; and `whence.classes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whence.errors import InputError
from whence.models.loading import load
from whence.results import Comparison
from whence.verbs.explain import explain

__all__ = ["classes", "compare"]


def compare(
    model: Any,
    inputs: Any,
    methods: Iterable[str] = ("gi", "ah_ln", "attn_lrp", "lrp"),
    target: Any = None,
    **options: Any,
) -> Comparison:
    """One input, several methods, the same target (or each of a list of targets; "all" for every class).

    >>> import whence
    >>> whence.compare("sentiment", "a gem", ["gi", "lrp"], target="all").targets
    ('positive', 'negative')
    """
    adapter = load(model)
    if target == "all":
        target = list(classes(adapter, inputs))
    targets = target if isinstance(target, (list, tuple)) else [target]
    names = list(methods)
    if not names:
        raise InputError("no method to compare: pass methods=['gi', 'lrp'], say; `whence methods` lists all")
    made = [explain(adapter, inputs, name, one, **options) for one in targets for name in names]
    if any(isinstance(m, list) for m in made):
        raise InputError("compare takes one input; call it in a loop for several")
    return Comparison(tuple(made))


def classes(model: Any, inputs: Any, most: int = 10) -> tuple[str, ...]:
    """The classes of a classifier, likeliest first for this input, `most` of them at most."""
    found = explain(model, inputs, "gi", receipt="short")
    if isinstance(found, list):
        raise InputError("classes takes one input; call it in a loop for several")
    return tuple(found.prediction.labels[:most])
