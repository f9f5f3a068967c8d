"""`whence.evaluate`: which explanation is right?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whence.core.propagation import Receipt
from whence.core.recipe import Recipe
from whence.errors import InputError, OptionError
from whence.evaluation.cases import Case, cases_of
from whence.evaluation.explainers import Explainer, from_function
from whence.evaluation.measures.conservation_error import ConservationError
from whence.evaluation.metric import AbstractMetric, as_metric
from whence.evaluation.running import TargetChoice, run
from whence.methods.explaining import as_method, explain_examples
from whence.methods.method import AbstractMethod
from whence.methods.propagate import Propagate
from whence.models.adapter import AbstractAdapter
from whence.models.loading import load
from whence.models.targets import Class
from whence.options import Count, check
from whence.results import Explanation
from whence.results.evaluation import Evaluation

__all__ = ["as_explainer", "evaluate"]


def evaluate(
    model: Any,
    data: Any,
    methods: Iterable[Any] = ("lrp", "attn_lrp", "ah_ln", "gi"),
    metrics: Iterable[Any] = ("auac", "au_mse"),
    *,
    target: TargetChoice | None = None,
    protocol: str | None = None,
    order: str | None = None,
    fill: str | None = None,
    special: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    truncate: bool = False,
    resume: str | Path | None = None,
    progress: bool | None = None,
    batch_tokens: int | None = None,
) -> Evaluation:
    """Measure how faithful methods are on a data set.

    >>> import whence
    >>> data = [("a gorgeous, witty, seductive movie", "positive"), ("a dull, lifeless film", "negative")]
    >>> result = whence.evaluate("sentiment", data, methods=["lrp", "gi"], metrics=["auac"])
    >>> 0 < result.value("lrp", "auac") < 1
    True

    Arguments:
        model: a loaded model, a name to load, `(module, tokenizer)`, or a module.
        data: texts; pairs `(text, label)`; dicts with "text" (or "image"), "label", "rationale" or "mask"; a dict of
            columns, a data set object, a pandas frame; or the `Path` of a .tsv, .csv or .jsonl file.
        methods: names, recipes, methods with options, paths of saved recipes, functions `(model, input, target)` that
            return an Explanation or scores (`whence.evaluation.from_function`); pairs `(name, method)` give names.
        metrics: names (`whence.evaluation.metrics` lists them), metrics with options, or pairs `(name, metric)`.
        target: what is explained: the `predicted` class (default) or the `true` label.
        protocol: `"ali"`: UNK, special tokens counted, true label, as in the public code of Ali et al. 2022.
        order, fill, special: switches for all metrics given by name that have them: `signed` or `absolute`;
            `unk`, `mask`, `pad`, `delete`; special tokens `kept` or `counted`.
        limit: draw this many examples at random (by `seed`).
        truncate: cut inputs that are too long.
        resume: path of a journal. When interrupted, the same call goes on where it stopped.
        batch_tokens: tokens in a batch, padding included.
    """
    check("limit", limit, Count | None, "evaluate")
    check("batch_tokens", batch_tokens, Count | None, "evaluate")
    if target is not None:
        check("target", target, TargetChoice, "evaluate")
    adapter = load(model)
    chosen = target or ("true" if protocol == "ali" else "predicted")
    switches = {"protocol": protocol, "order": order, "fill": fill, "special": special}
    judges = _named(metrics, switches)
    receipt: Receipt = "full" if any(isinstance(m, ConservationError) for m in judges.values()) else "short"
    explainers = _distinct([as_explainer(m, batch_tokens, receipt) for m in _listed(methods, "methods")])
    cases = cases_of(adapter, data, limit=limit, seed=seed, truncate=truncate)
    return run(
        adapter,
        cases,
        explainers,
        judges,
        target=chosen,
        seed=seed,
        resume=resume,
        progress=progress,
        batch_tokens=batch_tokens,
        extra={"truncate": True} if truncate else None,
    )


def as_explainer(method: Any, batch_tokens: int | None = None, receipt: Receipt = "full") -> Explainer:
    """Whatever explains, under one name. A short receipt is enough, and quicker, where no metric reads it."""
    if isinstance(method, Explainer):
        return method
    if isinstance(method, tuple) and len(method) == 2 and isinstance(method[0], str):
        inner = as_explainer(method[1], batch_tokens, receipt)
        return Explainer(method[0], inner.explain, inner.settings)
    if isinstance(method, (str, Path, AbstractMethod, Recipe)):
        made = as_method(method)
        if isinstance(made, Propagate) and made.receipt in ("auto", "full"):
            made = replace(made, receipt=receipt)
        named = isinstance(method, str) and not method.endswith(".json")
        return _native(str(method) if named else made.name, made, batch_tokens)
    if callable(method):
        return from_function(method)
    raise InputError(
        f"can't explain with {type(method).__name__} {str(method)[:60]!r}: pass a method's name, a recipe, a method, "
        "or a function (model, input, target) that returns an Explanation"
    )


def _native(name: str, method: AbstractMethod, batch_tokens: int | None) -> Explainer:
    def explain(model: AbstractAdapter, cases: Sequence[Case], targets: Sequence[int]) -> list[Explanation]:
        goals = [Class(target) for target in targets]
        made = explain_examples(model, method, [case.example for case in cases], goals, batch_tokens=batch_tokens)
        return [exp for exp in made if isinstance(exp, Explanation)]  # errors are raised, not kept

    return Explainer(name, explain, {"method": repr(method)})


def _listed(items: Any, what: str) -> list[Any]:
    made = [items] if isinstance(items, str) or not isinstance(items, Iterable) else list(items)
    if not made:
        raise InputError(f"{what} is empty: there is nothing to evaluate")
    return made


def _distinct(explainers: list[Explainer]) -> list[Explainer]:
    names = [e.name for e in explainers]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise InputError(f"two methods are called {twice!r}: name them, methods=[('first', …), ('second', …)]")
    return explainers


def _named(items: Any, switches: dict[str, Any]) -> dict[str, AbstractMetric]:
    made: dict[str, AbstractMetric] = {}
    given = _listed(items, "metrics")
    for item in given:
        pair = isinstance(item, tuple)
        metric = as_metric(item[1] if pair else item, **switches)
        name = item[0] if pair else metric.name
        if name in made:
            raise InputError(f"two metrics are called {name!r}: name them, metrics=[('first', …), ('second', …)]")
        made[name] = metric
    by_name = [m for item, m in zip(given, made.values(), strict=True) if isinstance(item, str)]
    for switch, value in switches.items():
        if value is not None and not any(hasattr(metric, switch) for metric in by_name):
            raise OptionError(f"{switch}={value!r}: no metric that was given by its name has this switch")
    return made
