"""`whence.compare`: one input, several methods; and `whence.classes`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from whence.data.frames import column
from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.loading import load
from whence.models.scoring import Scorer
from whence.options import Count, check
from whence.results import Comparison
from whence.verbs.explain import encoding_of, explain

__all__ = ["classes", "compare"]

READING = ("text", "truncate", "continuation", "generate")
"""Options of `explain` that say how an input is read."""


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
    (example,) = _single(adapter, inputs, options, "compare takes one input; call it in a loop for several")
    if target == "all":
        target = _likeliest(adapter, example, 10)
    targets = target if isinstance(target, (list, tuple)) else [target]
    names = list(methods)
    if not names:
        raise InputError("no method to compare: pass methods=['gi', 'lrp'], say; `whence methods` lists all")
    options = {k: v for k, v in options.items() if k not in READING}
    # One example, several targets: methods that can share their forward pass among them.
    by_method = [explain(adapter, [example] * len(targets), name, targets, **options) for name in names]
    return Comparison(tuple(of_method[n] for n in range(len(targets)) for of_method in by_method))


def classes(model: Any, inputs: Any, most: int = 10) -> tuple[str, ...]:
    """The classes of a classifier, likeliest first for this input, `most` of them at most."""
    adapter = load(model)
    check("most", most, Count, "classes")
    (example,) = _single(adapter, inputs, {}, "pass one input; call it in a loop for several")
    return tuple(adapter.spelled(example, index) for index in _likeliest(adapter, example, most))


def _likeliest(adapter: AbstractAdapter, example: Example, most: int) -> list[int]:
    """Numbers of the outputs of the highest scores."""
    (scores,) = Scorer(adapter).logits([example])
    return [int(i) for i in np.argsort(-scores.reshape(-1), kind="stable")[:most]]


def _single(adapter: AbstractAdapter, inputs: Any, options: Mapping[str, Any], error: str) -> list[Example]:
    """The one input, encoded."""
    written = (options.get("continuation"), options.get("generate"))
    encoding = encoding_of(adapter, options.get("truncate", False), *written)
    examples, single = adapter.encode(column(inputs, options.get("text")), **encoding)
    if not single:
        raise InputError(error)
    return examples
