"""`whence.tune`: the most faithful recipe for your model, measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from whence.core.recipe import Recipe, recipes
from whence.errors import InputError
from whence.evaluation.cases import Case, cases_of
from whence.evaluation.metric import AbstractMetric, as_metric
from whence.evaluation.running import TargetChoice, run
from whence.evaluation.search import SPACE, Judge, Search, choices_of, search
from whence.models.adapter import AbstractAdapter
from whence.models.loading import load
from whence.options import Count, check
from whence.progress import track
from whence.results.tuning import Effect, Tuning
from whence.verbs.evaluate import as_explainer

__all__ = ["tune"]


def tune(
    model: Any,
    data: Any,
    *,
    metric: Any = "auac",
    calibration: Any = None,
    held_out: Any = None,
    budget: int = 40,
    name: str = "tuned",
    target: TargetChoice = "predicted",
    seed: int = 0,
    truncate: bool = False,
    progress: bool | None = None,
    save: str | Path | None = None,
) -> Tuning:
    """Search the table of recipes for the one that is most faithful on your model and data.

    The search sees the calibration examples only: all presets, then one field changed at a time from the best preset,
    then from random recipes. The winner and the presets are then measured on held-out examples.

        found = whence.tune("sentiment", data, budget=40)
        print(found)                                  # against the presets, and which choices mattered
        found.save("mine.json")
        whence.explain("sentiment", text, method="mine.json")

    Arguments:
        model, data, target, truncate: as in `whence.evaluate`. Labels are needed for `target="true"` alone.
        metric: what to search by: a name or a metric with options.
        calibration, held_out: how many examples to draw for each (by default half and half, at most 100 and 200), or
            `held_out` as a data set of its own.
        budget: how many recipes may be tried, presets included.
        name: the name of the recipe that is found.
        save: where to write the recipe (.json).
    """
    adapter, judge = load(model), as_metric(metric)
    if judge.better == "" or judge.columns:
        raise InputError(f"can't tune by {judge.name!r}: it does not say which of two recipes is better")
    check("budget", budget, Count, "tune")
    if name in recipes:
        raise InputError(f"name={name!r} is a preset, which the found recipe is compared with: choose another name")
    if budget < len(recipes):
        raise InputError(f"budget={budget}: the {len(recipes)} presets are tried first, so it must be larger")
    search_on, report_on = _split(adapter, data, calibration, held_out, seed, truncate)
    measure = _Measure(adapter, search_on, judge, target, seed)
    sizes: list[int] = []
    bar = track(repeat(None), "recipes", budget, iter(lambda: sizes[-1], None), show=progress)
    with closing(bar):
        done = search(_shown(measure, bar, sizes), budget=budget, seed=seed)
    found = done.best.recipe.but(name=name, source=f"whence.tune on {adapter.name} by {judge.name}")
    result = Tuning(
        recipe=found,
        metric=judge.name,
        held_out=run(
            adapter,
            report_on,
            [as_explainer(r, receipt="short") for r in [found, *(r for _, r in recipes.items())]],
            {judge.name: judge},
            target=target,
            seed=seed,
            progress=progress,
        ),
        trials=tuple(
            {"recipe": t.recipe.name, "value": measure.sign * t.value, "stage": t.stage} for t in done.trials.values()
        ),
        effects=_effects(done, found),
        calibration=len(search_on),
        settings={"budget": budget, "seed": seed, "target": target, "choices": _spelled(found)},
    )
    if save is not None:
        result.save(save)
    return result


class _Measure:
    """Judges recipes on the calibration set; higher is better."""

    def __init__(
        self, model: AbstractAdapter, cases: Sequence[Case], metric: AbstractMetric, target: TargetChoice, seed: int
    ):
        self.model, self.cases, self.metric, self.target, self.seed = model, cases, metric, target, seed
        self.sign = -1.0 if metric.better == "lower" else 1.0

    def __call__(self, wanted: Sequence[Recipe]) -> list[float]:
        explainers = [as_explainer((str(n), recipe), receipt="short") for n, recipe in enumerate(wanted)]
        found = run(
            self.model,
            self.cases,
            explainers,
            {self.metric.name: self.metric},
            target=self.target,
            seed=self.seed,
            progress=False,
        )
        values = [self.sign * found.value(e.name, self.metric.name) for e in explainers]
        return [-np.inf if np.isnan(v) else v for v in values]


def _shown(measure: _Measure, bar: Iterator[None], sizes: list[int]) -> Judge:
    """The judge, moving a progress bar on by as many recipes as it has judged."""

    def judge(wanted: Sequence[Recipe]) -> list[float]:
        next(bar)
        values = measure(wanted)
        sizes.append(len(wanted))
        return values

    return judge


def _split(
    model: AbstractAdapter, data: Any, calibration: Any, held_out: Any, seed: int, truncate: bool
) -> tuple[list[Case], list[Case]]:
    """Calibration and held-out cases, drawn at random; no example is in both."""
    cases = cases_of(model, data, limit=None, seed=seed, truncate=truncate)
    order = np.random.default_rng(seed).permutation(len(cases))
    separate = held_out is not None and not isinstance(held_out, int)
    half = len(cases) if separate else len(cases) // 2
    first = min(half, 100) if calibration is None else int(calibration)
    second = min(len(cases) - first, 200) if held_out is None else 0 if separate else int(held_out)
    if first < 1 or first + second > len(cases) or (second < 1 and not separate):
        raise InputError(
            f"{first} calibration and {second} held-out examples from {len(cases)}: pass more data, or smaller "
            "numbers, calibration=20, held_out=40"
        )
    search_on = [cases[i] for i in sorted(order[:first])]
    if separate:
        return search_on, cases_of(model, held_out, limit=None, seed=seed, truncate=truncate)
    return search_on, [cases[i] for i in sorted(order[first : first + second])]


def _effects(done: Search, found: Recipe) -> tuple[Effect, ...]:
    """The found recipe against its neighbours in each field, as far as they were tried."""
    best, made = done.best.value, []
    for name in SPACE:
        others = {}
        for recipe in done.neighbours(found, name):
            trial = done.trials.get(choices_of(recipe))
            if trial is not None and getattr(recipe, name) != getattr(found, name):
                others[_spelled(recipe)[name]] = best - trial.value  # 0 where the choice makes no other recipe
        made.append(Effect(name, _spelled(found)[name], others))
    return tuple(sorted(made, key=lambda effect: -effect.size))


def _spelled(recipe: Recipe) -> dict[str, str]:
    held = {name: getattr(recipe, name) for name in SPACE}
    return {k: f"{v:g}" if isinstance(v, float) else str(v).removesuffix("()") for k, v in held.items()}
