"""What metrics say of methods, with intervals: the result of `whence.evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whence.errors import UnknownNameError
from whence.results import evaluation_files as files
from whence.results.bootstrap import Estimate, difference, estimate, means
from whence.results.measured import Axis, Measured
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened

__all__ = ["Curve", "Difference", "Evaluation"]


class Curve(NamedTuple):
    """A mean curve with a bootstrap band."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


ALPHA = 0.05
"""What p has to be below."""


class Difference(NamedTuple):
    """A paired difference `first - second` over the same examples."""

    first: str
    second: str
    metric: str
    difference: float
    low: float
    high: float
    p: float
    """Two-sided: how often a resampled difference has the other sign; of n examples at least 2^(1 - n)."""
    examples: int

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out 0, and there are examples enough (six) to say so."""
        return (self.low > 0 or self.high < 0) and self.p < ALPHA

    def __str__(self) -> str:
        return (
            f"{self.metric}: {self.first} − {self.second} = {self.difference:+.4f} "
            f"[{self.low:+.4f}, {self.high:+.4f}], p = {self.p:.4f}, {self.examples} examples"
        )


@dataclass(frozen=True, eq=False)
class Evaluation(Drawn):
    """A number per method and metric, the settings it was measured with, and how sure it is.

    Intervals are percentile bootstraps over examples; all use the same resamples, so differences are paired.
    """

    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    measured: Mapping[tuple[str, str], Measured]
    better: Mapping[str, str] = field(default_factory=dict)
    """"higher", "lower" or "" per metric."""
    axes: Mapping[str, Axis] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Everything the numbers depend on; settings["metrics"][metric] holds the switches of a metric."""
    inputs: tuple[str, ...] = ()
    """What was explained, in words."""
    seed: int = 0
    resamples: int = 2000

    def __len__(self) -> int:
        return len(self.inputs)

    # -- numbers ---------------------------------------------------------------------------------------------

    def value(self, method: str, metric: str) -> float:
        """The metric over all examples."""
        held = self._held(method, metric)
        return estimate(held.numerators, held.denominators).value

    def interval(self, method: str, metric: str, level: float = 0.95) -> tuple[float, float]:
        """Where the value lies with probability `level`, by resampling examples."""
        found = self.estimate(method, metric, level)
        return found.low, found.high

    def estimate(self, method: str, metric: str, level: float = 0.95) -> Estimate:
        """Value, interval and number of examples."""
        held = self._held(method, metric)
        return estimate(held.numerators, held.denominators, level, self.resamples, self.seed)

    def compare(self, first: str, second: str, metric: str, level: float = 0.95) -> Difference:
        """Is `first` better than `second`? Paired over examples."""
        a, b = self._held(first, metric), self._held(second, metric)
        found, p = difference(
            (a.numerators, a.denominators), (b.numerators, b.denominators), level, self.resamples, self.seed
        )
        return Difference(first, second, metric, found.value, found.low, found.high, p, found.examples)

    def best(self, metric: str) -> str:
        """The method that wins under `metric`."""
        known = [m for m in self.methods if (m, metric) in self.measured]
        if not known:
            raise UnknownNameError("metric", metric, self.metrics)
        sign = -1 if self.better.get(metric) == "lower" else 1
        scores = {m: sign * self.value(m, metric) for m in known}
        return max(known, key=lambda m: -np.inf if np.isnan(scores[m]) else scores[m])

    def leaders(self, metric: str) -> tuple[str, ...]:
        """The method that wins, then those that can't be told from it: their paired difference may be 0.

        One name alone has won. Where differences can't be measured (one example), nobody has.
        """
        best = self.best(metric)
        known = [m for m in self.methods if m != best and (m, metric) in self.measured]
        held = [m for m in known if not np.isnan(self.value(m, metric))]
        return (best, *(m for m in held if not self.compare(best, m, metric).certain))

    @property
    def curves(self) -> dict[tuple[str, str], Curve]:
        """Mean curves with 95 % bands, for metrics that have curves."""
        made = {}
        for (method, metric), held in self.measured.items():
            if held.curves is not None and metric in self.axes:
                low, high = np.quantile(means(held.curves, self.resamples, self.seed), (0.025, 0.975), axis=0)
                made[method, metric] = Curve(np.array(self.axes[metric].points), held.curves.mean(0), low, high)
        return made

    @property
    def per_example(self) -> list[dict[str, Any]]:
        """Tidy rows: example, input, method, metric, value."""
        return [
            {"example": n, "input": text, "method": method, "metric": metric, "value": float(value)}
            for (method, metric), held in self.measured.items()
            for n, (text, value) in enumerate(zip(self.inputs, held.values(), strict=True))
        ]

    def values(self, method: str, metric: str) -> np.ndarray:
        """One value per example."""
        return self._held(method, metric).values()

    def table(self) -> list[dict[str, Any]]:
        """Tidy rows, one per method and metric, each with the settings it was measured with."""
        rows = []
        for (method, metric), _ in self.measured.items():
            found = self.estimate(method, metric)
            rows.append(
                {
                    "method": method,
                    "metric": metric,
                    "value": found.value,
                    "low": found.low,
                    "high": found.high,
                    "examples": found.examples,
                    "better": self.better.get(metric, ""),
                    "settings": self.describe(metric),
                    "model": self.settings.get("model", ""),
                }
            )
        return rows

    def describe(self, metric: str) -> str:
        """The settings of a metric on one line."""
        general = {k: self.settings[k] for k in ("target", "seed") if k in self.settings}
        own = self.settings.get("metrics", {}).get(metric, {})
        return ", ".join(f"{k}={_short(v)}" for k, v in {**own, **general}.items())

    def _held(self, method: str, metric: str) -> Measured:
        if method not in self.methods:
            raise UnknownNameError("method", method, self.methods)
        if (method, metric) not in self.measured:
            raise UnknownNameError("metric", metric, self.metrics)
        return self.measured[method, metric]

    # -- saving and showing ----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return files.to_dict(self)

    def _writers(self) -> Writers:
        """.json can be loaded; .csv, .parquet, .md and .txt are the table."""
        return {kind: partial(make, self) for kind, make in files.WRITERS.items()}

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read what `save` wrote as .json."""
        with opened(path, "whence.results.Evaluation", ".json") as (data, _):
            return files.from_dict(cls, data)

    def __rich__(self) -> Any:
        return files.rich_table(self)

    def __str__(self) -> str:
        return files.text(self)

    def __repr__(self) -> str:
        return f"<Evaluation of {len(self.methods)} methods by {', '.join(self.metrics)} on {len(self)} examples>"


def _short(value: Any) -> str:
    if isinstance(value, (tuple, list)) and len(value) > 4:
        return f"{_short(value[0])}…{_short(value[-1])} ({len(value)})"
    if isinstance(value, (tuple, list)):
        return "/".join(_short(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
