"""The result of `whence.tcav`: how a class answers a concept, per layer."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from whence.errors import InputError, UnknownNameError
from whence.results.percents import percent
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, spelled

__all__ = ["TCAV", "LayerScore"]

FORMAT = 1

CHANCE_LEVEL = 0.6
"""Below this held-out accuracy a vector hardly tells its concept from others, whatever its score."""


@dataclass(frozen=True)
class LayerScore:
    """What the runs gave at one layer."""

    layer: str
    """Name of the module."""
    index: int | None
    """Number of the block, if it is one."""
    scores: tuple[float, ...]
    """TCAV of each run: the share of examples whose score rises towards the concept."""
    chance: tuple[float, ...]
    """TCAV of vectors between random sets, each taken both ways."""
    magnitudes: tuple[float, ...]
    """Mean directional derivative of each run: score per unit of activation."""
    accuracies: tuple[float, ...]
    """Held-out accuracy of each run's vector; 0.5 is chance."""
    interval: tuple[float, float]
    """95 % confidence interval of the mean score."""
    p_uncorrected: float
    """Two-sided t test against chance as in the original, which takes runs for independent."""
    p_value: float
    """The same, corrected for the examples that runs share."""
    p_corrected: float
    """`p_value`, Bonferroni-corrected for the number of layers."""
    alpha: float = 0.05

    @property
    def score(self) -> float:
        """Mean TCAV score over the runs."""
        return fmean(self.scores)

    @property
    def std(self) -> float:
        return stdev(self.scores) if len(self.scores) > 1 else 0.0

    @property
    def chance_score(self) -> float:
        return fmean(self.chance)

    @property
    def chance_std(self) -> float:
        return stdev(self.chance) if len(self.chance) > 1 else 0.0

    @property
    def magnitude(self) -> float:
        return fmean(self.magnitudes)

    @property
    def accuracy(self) -> float:
        return fmean(self.accuracies)

    @property
    def significant(self) -> bool:
        """Whether the corrected p value is below alpha."""
        return self.p_corrected < self.alpha

    @property
    def stars(self) -> str:
        """*** below 0.001, ** below 0.01, * below alpha; nothing otherwise. After correction."""
        if not self.significant:
            return ""
        return "***" if self.p_corrected < 0.001 else "**" if self.p_corrected < 0.01 else "*"

    @property
    def note(self) -> str:
        """A warning where the vector does not know its concept."""
        return "" if self.accuracy >= CHANCE_LEVEL else "the vector hardly tells the concept apart"

    @property
    def label(self) -> str:
        return self.layer if self.index is None else str(self.index)

    def row(self) -> dict[str, Any]:
        return {
            "layer": self.label,
            "module": self.layer,
            "score": self.score,
            "std": self.std,
            "low": self.interval[0],
            "high": self.interval[1],
            "chance": self.chance_score,
            "chance_std": self.chance_std,
            "p_uncorrected": self.p_uncorrected,
            "p": self.p_value,
            "p_corrected": self.p_corrected,
            "significant": self.significant,
            "cav_accuracy": self.accuracy,
            "magnitude": self.magnitude,
            "note": self.note,
        }


@dataclass(frozen=True)
class TCAV(Drawn):
    """Scores of one concept for one target at one or more layers.

    `result[0]` is the first layer asked for; `result.at(10)` and `result.at("encoder.layer.10")` find one by number or
    name.
    """

    target: str
    concept: str
    counter: str
    """What the concept was set against."""
    layers: tuple[LayerScore, ...]
    examples: int
    """Number of examples of the target."""
    recognised: float | None
    """Share of them that the model puts into the target class; None where that can't be said."""
    size: int
    """Examples on each side of a vector."""
    pool: str
    runs: int
    alpha: float = 0.05
    seed: int = 0
    standardised: bool = True
    stamp: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, n: int) -> LayerScore:
        return self.layers[n]

    def at(self, layer: int | str) -> LayerScore:
        """The layer with this block number or module name."""
        for found in self.layers:
            if layer in (found.index, found.layer):
                return found
        raise UnknownNameError("layer", str(layer), [la.label for la in self.layers])

    @property
    def title(self) -> str:
        return f"target {self.target}: {self.concept} vs {self.counter}"

    @property
    def summary(self) -> str:
        known = "" if self.recognised is None else f", {percent(self.recognised, 0)} of them recognised"
        return (
            f"{self.examples} examples of the target{known}; {self.runs} vectors per layer from {self.size} + "
            f"{self.size} inputs; activations: {self.pool}"
        )

    def table(self) -> list[dict[str, Any]]:
        """One dict per layer: score, spread, interval, chance, p values, accuracy of the vectors, magnitude."""
        return [layer.row() for layer in self.layers]

    # -- saving and showing ----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, "kind": "tcav", **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TCAV:
        if data.get("kind") != "tcav" or data.get("format") != FORMAT:
            raise InputError(f"not a TCAV result of format {FORMAT}: {data.get('kind')!r}, {data.get('format')!r}")
        values = {k: v for k, v in data.items() if k not in ("format", "kind", "layers")}
        layers = tuple(_layer(layer) for layer in data["layers"])
        return cls(layers=layers, **values)

    def _writers(self) -> Writers:
        return {".json": lambda: spelled(self.to_dict(), indent=1), ".csv": self._csv}

    def _csv(self) -> str:
        fixed = {"target": self.target, "concept": self.concept, "counter": self.counter, "examples": self.examples}
        rows = [fixed | row for row in self.table()]
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()

    @classmethod
    def load(cls, path: str | Path) -> TCAV:
        """Read what `save` wrote as .json."""
        with opened(path, "whence.results.concept_scores.TCAV", ".json") as (data, _):
            return cls.from_dict(data)

    def __repr__(self) -> str:
        shown = ", ".join(f"{la.label}: {la.score:.2f}{la.stars}" for la in self.layers)
        return f"<TCAV {self.title}; {shown}>"


def _layer(data: dict[str, Any]) -> LayerScore:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return LayerScore(**values)
