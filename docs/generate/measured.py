"""What the result files of benchmarks/ say about every method, as the site shows it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from math import exp, log
from statistics import fmean
from typing import Any

from docs.generate.written import ROOT
from whence.results.percents import percent

__all__ = ["MEASURES", "Measure", "costs", "measured"]

RESULTS = ROOT / "benchmarks" / "results"
BASE = "exact"


@dataclass(frozen=True)
class Measure:
    """A number that every method has, where it was tried: higher is better unless `low`."""

    name: str
    title: str
    means: str
    page: str
    low: bool = False
    digits: int = 2


MEASURES = [
    Measure(
        "auac",
        "AUAC",
        "area under the class probability as tokens or patches are inserted, most relevant first; mean over {columns} "
        "pairs of model and task",
        "results.md",
        digits=3,
    ),
    Measure(
        "au_mse",
        "AU-MSE / exact",
        "area under the squared change of the logits as the least relevant go first, over that of `exact`; geometric "
        "mean over the same columns",
        "results.md",
        low=True,
    ),
    Measure(
        "tag",
        "planted tag",
        "share of the positive relevance in a tag of {area} of the picture, which the model was taught to read",
        "results.md#clever-hans-with-known-truth",
    ),
    Measure("rationale", "rationales", "token F1 with what people underlined in reviews", "results.md", digits=3),
    Measure("answer", "answer", "strongest token lies in the answer of a SQuAD paragraph", "results_language.md"),
    Measure("needle", "needle", "strongest word lies in the line that the answer is in", "results_language.md"),
    Measure("source", "document", "the right one of five documents comes first", "results_language.md"),
]


@cache
def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def facts() -> dict[str, Any]:
    """What the meanings of measures mention."""
    return {"columns": len(_columns()), "area": percent(_read("pets")["hans"]["area"], 0)}


def measured() -> dict[str, dict[str, float]]:
    """Measure → method → value, for methods that were tried on all of it."""
    columns = _columns()
    everywhere = set.intersection(*(set(c) for c in columns))
    logs = {m: [log(c[m]["au_mse"][0] / c[BASE]["au_mse"][0]) for c in columns] for m in everywhere}
    return {
        "auac": {m: fmean(c[m]["auac"][0] for c in columns) for m in everywhere},
        "au_mse": {m: exp(fmean(values)) for m, values in logs.items()},
        "tag": {m: share[0] for m, share in _read("pets")["hans"]["share"].items()},
        "rationale": {row["method"]: row["value"] for row in _read("reviews")["table"]},
        "answer": _means("language-squad-smollm2", "top"),
        "needle": _means("language-needle-tracker", "top"),
        "source": _means("language-sources5-smollm2", "first"),
    }


def costs() -> dict[str, Any]:
    """Time and memory of every method, and what they were measured on."""
    return _read("costs")


def _columns() -> list[dict[str, Any]]:
    """The methods of each column, a model on a task."""
    return [_read(file.stem)["results"] for file in sorted(RESULTS.glob("ali-*.json"))]


def _means(name: str, value: str) -> dict[str, float]:
    return {m: fmean(found[value]) for m, found in _read(name)["made"].items() if found.get(value)}
