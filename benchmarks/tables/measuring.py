"""AUAC and AU-MSE of methods on one model, and the recipe that is tuned for it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import whence
from whence.core.recipe import recipes
from whence.evaluation.metric import as_metric

__all__ = ["METRICS", "PRESETS", "Measurements", "kept", "measure", "tuned"]

METRICS = ("auac", "au_mse")
PRESETS = tuple(name for name, _ in recipes.items())


@dataclass
class Measurements:
    """What goes into a table, and the values per example of the methods that are ranked."""

    table: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, np.ndarray] = field(default_factory=dict)


def measure(
    model: Any,
    data: list[Any],
    methods: dict[str, Any],
    count: int,
    switches: dict[str, Any],
    fewer: dict[str, int] | None = None,
) -> Measurements:
    """Every method in its own call, so that one that can't run leaves the others alone; all see the same examples."""
    found = Measurements()
    for name, method in methods.items():
        start, limit = time.time(), (fewer or {}).get(name, count)
        try:
            judged = whence.evaluate(
                model, data, [(name, method)], METRICS, **switches, limit=limit, seed=0, truncate=True, progress=False
            )
        except (whence.WhenceError, ImportError) as error:
            found.table[name] = {"error": str(error)}
            print(f"  {name}: {error}", flush=True)
            continue
        values = {m: [judged.value(name, m), *judged.interval(name, m)] for m in METRICS}
        found.table[name] = {"n": len(judged), "seconds": round(time.time() - start, 1), **values}
        if name in PRESETS or name == "tuned":
            found.examples |= {f"{name}.{m}": judged.values(name, m).astype(np.float32) for m in METRICS}
        print(
            f"  {name:24} {found.table[name]['seconds']} {values['auac'][0]:.4f} {values['au_mse'][0]:.4f}", flush=True
        )
    return found


def kept(judged: Any) -> list[dict[str, Any]]:
    """The tidy rows of an evaluation, without what would name a folder of this machine."""
    return [{k: row[k] for k in ("method", "metric", "value", "low", "high", "examples")} for row in judged.table()]


def tuned(model: Any, data: list[Any], switches: dict[str, Any], budget: int) -> tuple[Any, dict[str, Any]]:
    """The recipe with the best AUAC on examples that are neither trained nor tested on, and how it was found."""
    start = time.time()
    few = max(2, len(data) // 10)
    found = whence.tune(
        model, data, metric=as_metric("auac", **switches), calibration=len(data) - few, held_out=few, budget=budget,
        target="true", truncate=True, progress=False,
    )  # fmt: skip
    print(f"  tuned: {found.settings['choices']} in {time.time() - start:.0f} s", flush=True)
    return found.recipe, {
        "choices": found.settings["choices"], "metric": found.metric, "calibration": found.calibration, "budget": budget,
        "seed": found.settings["seed"], "best_preset": found.best_preset, "seconds": round(time.time() - start, 1),
    }  # fmt: skip
