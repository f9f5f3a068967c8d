"""Which preset is the most faithful over all tasks and models, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables.measuring import PRESETS

__all__ = ["Column", "Standing", "columns_of", "gains", "standings"]

RESAMPLES = 2000
BASE = "exact"


@dataclass(frozen=True)
class Column:
    """One model on one task: values per example, by "method.metric"."""

    task: str
    model: str
    values: dict[str, np.ndarray]

    def mean(self, method: str, metric: str) -> float:
        return float(self.values[f"{method}.{metric}"].mean())


@dataclass(frozen=True)
class Standing:
    """A method over several columns; differences are to `exact`, on the same examples."""

    method: str
    auac: float
    auac_rank: float
    mse_rank: float
    auac_gain: tuple[float, float, float]
    mse_ratio: tuple[float, float, float]
    """AU-MSE over that of `exact`, geometric mean over columns: AU-MSE has the scale of squared logits."""

    @property
    def rank(self) -> float:
        return (self.auac_rank + self.mse_rank) / 2


def columns_of(rows: dict[Path, dict[str, Any]]) -> list[Column]:
    """The columns whose values per example were kept."""
    made = []
    for path, row in rows.items():
        if (kept := path.with_suffix(".npz")).exists():
            with np.load(kept) as held:
                values = {name: held[name].astype(np.float64) for name in held.files}
            if all(f"{m}.auac" in values for m in PRESETS):
                made.append(Column(row["task"], row["model"], values))
    return made


def standings(columns: list[Column], methods: tuple[str, ...] = PRESETS) -> list[Standing]:
    """Best first, by the mean of both ranks."""
    ranks = {metric: _ranks(columns, methods, metric) for metric in ("auac", "au_mse")}
    made = []
    for n, method in enumerate(methods):
        gain, ratio = gains(columns, method)
        level = float(np.mean([c.mean(method, "auac") for c in columns]))
        made.append(Standing(method, level, float(ranks["auac"][n]), float(ranks["au_mse"][n]), gain, ratio))
    return sorted(made, key=lambda s: (s.rank, -s.auac))


def gains(columns: list[Column], method: str, base: str = BASE) -> tuple[tuple[float, float, float], ...]:
    """AUAC gain and AU-MSE ratio over `base`, with 95 % intervals: examples are drawn anew within each column."""
    gain, ratio = np.zeros(RESAMPLES + 1), np.zeros(RESAMPLES + 1)
    for column in columns:
        drawn = _draws(len(column.values[f"{base}.auac"]))
        first, second = (drawn @ column.values[f"{m}.auac"] for m in (method, base))
        gain += (first - second) / len(columns)
        first, second = (drawn @ column.values[f"{m}.au_mse"] for m in (method, base))
        ratio += np.log(first / second) / len(columns)
    return _summary(gain), _summary(np.exp(ratio))


def _draws(examples: int) -> np.ndarray:
    """Weights of the examples: once as they are, then resampled."""
    drawn = np.random.default_rng(0).multinomial(examples, np.full(examples, 1 / examples), size=RESAMPLES)
    return np.concatenate([np.ones((1, examples)), drawn]) / examples


def _summary(values: np.ndarray) -> tuple[float, float, float]:
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return float(values[0]), float(low), float(high)


def _ranks(columns: list[Column], methods: tuple[str, ...], metric: str) -> np.ndarray:
    """Mean rank over columns, 1 is best; values that agree to four digits share a rank."""
    table = np.array([[float(f"{c.mean(m, metric):.4g}") for m in methods] for c in columns])
    table = -table if metric == "auac" else table
    below = (table[:, :, None] > table[:, None, :]).sum(-1)
    same = (table[:, :, None] == table[:, None, :]).sum(-1)
    return (below + (same + 1) / 2).mean(0)
