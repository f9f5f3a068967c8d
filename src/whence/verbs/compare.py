"""`whence.compare`: one input, several methods; and `whence.classes`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.loading import load
from whence.models.scoring import Scorer
from whence.options import Count, check
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
    """One input, several methods, the same target (or each of a list of targets; "all" for the ten likeliest classes).

    >>> import whence
    >>> whence.compare("sentiment", "a gem", ["gi", "lrp"], target="all").targets
    ('positive', 'negative')
    """
    adapter = load(model)
    if target == "all":
        target = _likeliest(adapter, inputs, 10, options)
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
    adapter = load(model)
    check("most", most, Count, "classes")
    return tuple(adapter.spell(index) for index in _likeliest(adapter, inputs, most, {}))


def _likeliest(adapter: AbstractAdapter, inputs: Any, most: int, options: Mapping[str, Any]) -> list[int]:
    """Numbers of the outputs of the highest scores."""
    chosen = {k: options[k] for k in ("truncate", "continuation", "generate") if options.get(k) is not None}
    examples, single = adapter.encode(inputs, **chosen)
    if not single:
        raise InputError("pass one input; call it in a loop for several")
    (scores,) = Scorer(adapter).logits(examples)
    return [int(i) for i in np.argsort(-scores.reshape(-1), kind="stable")[:most]]
