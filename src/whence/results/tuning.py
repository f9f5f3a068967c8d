"""The recipe that was found for a model, and how good it is: the result of `whence.tune`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from whence.results.evaluation import Difference, Evaluation
from whence.results.evaluation_files import WRITERS
from whence.results.showing import Drawn, Writers

__all__ = ["Effect", "Tuning"]


class Effect(NamedTuple):
    """What one field of the recipe is worth: the chosen value against each other one, all else as chosen."""

    field: str
    chosen: str
    alternatives: Mapping[str, float]
    """Loss of the metric on the calibration set by taking the alternative; positive is worse."""

    @property
    def size(self) -> float:
        return max((abs(v) for v in self.alternatives.values()), default=0.0)


@dataclass(frozen=True, eq=False)
class Tuning(Drawn):
    """A recipe, measured on examples that the search has not seen, beside the presets."""

    recipe: Any
    """The recipe that won on the calibration set (`whence.Recipe`)."""
    metric: str
    held_out: Evaluation
    """The winner and all presets on held-out examples."""
    trials: tuple[Mapping[str, Any], ...]
    """Every recipe that was tried, with its value on the calibration set."""
    effects: tuple[Effect, ...]
    """Which choices mattered, strongest first."""
    calibration: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return self.held_out.value(self.recipe.name, self.metric)

    @property
    def interval(self) -> tuple[float, float]:
        return self.held_out.interval(self.recipe.name, self.metric)

    @property
    def best_preset(self) -> str:
        """The preset that was best on the calibration set: the one a user would have taken."""
        presets = [trial for trial in self.trials if trial["stage"] == "preset"]
        sign = -1 if self.held_out.better.get(self.metric) == "lower" else 1
        return str(max(presets, key=lambda trial: sign * trial["value"])["recipe"])

    def compare(self, preset: str | None = None) -> Difference:
        """The tuned recipe against a preset (the best on the calibration set), paired, on held-out examples."""
        return self.held_out.compare(self.recipe.name, preset or self.best_preset, self.metric)

    def _writers(self) -> Writers:
        """.json holds the recipe, for `method="that.json"`; the others are the report."""
        return {
            ".json": lambda: json.dumps(self.recipe.to_dict(), indent=2, ensure_ascii=False) + "\n",
            ".md": lambda: str(self) + "\n",
            ".txt": lambda: str(self) + "\n",
            ".csv": partial(WRITERS[".csv"], self.held_out),
            ".parquet": partial(WRITERS[".parquet"], self.held_out),
        }

    def __str__(self) -> str:
        chosen = self.settings.get("choices", {})
        lines = [
            f"recipe {self.recipe.name!r}: " + ", ".join(f"{k}={v}" for k, v in chosen.items()),
            f"{len(self.trials)} recipes tried on {self.calibration} calibration examples; "
            f"reported on {len(self.held_out)} others",
            "",
            str(self.held_out),
            "",
            f"held out, {self.compare()}",
            "",
            f"which choices mattered (loss of {self.metric} on the calibration set with another choice):",
        ]
        for effect in self.effects:
            others = ", ".join(f"{name} {loss:+.4f}" for name, loss in effect.alternatives.items()) or "not tried"
            lines.append(f"  {effect.field:<11} {effect.chosen:<12} {others}")
        return "\n".join(lines)

    def __rich__(self) -> Any:
        from rich.text import Text

        return Text(str(self))

    def __repr__(self) -> str:
        low, high = self.interval
        return f"<Tuning: {self.recipe.name!r} with {self.metric} {self.value:.4f} [{low:.4f}, {high:.4f}] held out>"
