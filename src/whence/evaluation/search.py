"""Searching the table of recipes: coordinate descent from the best preset, then from random places.

The search knows only a function that judges recipes and how many it may ask for: it can be tested without a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whence.core.recipe import Gamma, Plain, Recipe, recipes

__all__ = ["SPACE", "Judge", "Search", "Trial", "choices_of", "search"]

SPACE: dict[str, tuple[Any, ...]] = {
    "softmax": ("detach", "gradient", 2.0),
    "scores": (1.0, 0.5, 0.25),
    "values": (1.0, 0.5),
    "activation": ("gradient", "slope", "gate"),
    "product": ("gradient", "half", "detach"),
    "norm": ("gradient", "detach", "detach_mean", "identity"),
    "linear": (Plain(), Gamma(0.05), Gamma(0.1), Gamma(0.25)),
}
"""The choices that are tried, field by field."""

Judge = Callable[[Sequence[Recipe]], Sequence[float]]
"""Recipes to values, higher is better."""


@dataclass(frozen=True)
class Trial:
    """A recipe that was judged, and why it was tried."""

    recipe: Recipe
    value: float
    stage: str


@dataclass
class Search:
    """What has been tried. Each recipe is judged once, however the search comes upon it."""

    judge: Judge
    budget: int
    space: Mapping[str, Sequence[Any]] = field(default_factory=lambda: SPACE)
    trials: dict[tuple[Any, ...], Trial] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return self.budget - len(self.trials)

    @property
    def best(self) -> Trial:
        return max(self.trials.values(), key=lambda trial: trial.value)

    def ask(self, wanted: Sequence[Recipe], stage: str) -> list[Trial]:
        """Judge those that are new, as far as the budget goes; the rest is left out."""
        new: dict[tuple[Any, ...], Recipe] = {}
        for recipe in wanted:
            key = choices_of(recipe)
            if key not in self.trials and key not in new and len(new) < self.left:
                new[key] = recipe
        values = self.judge(list(new.values())) if new else []
        for (key, recipe), value in zip(new.items(), values, strict=True):
            self.trials[key] = Trial(recipe, float(value), stage)
        return [self.trials[key] for recipe in wanted if (key := choices_of(recipe)) in self.trials]

    def neighbours(self, recipe: Recipe, name: str) -> list[Recipe]:
        """The recipe with every other choice for one field."""
        return [_changed(recipe, **{name: choice}) for choice in self.space[name]]

    def descend(self, start: Trial, stage: str, rng: np.random.Generator) -> Trial:
        """Change one field at a time, to the best choice, until no change helps or the budget is spent."""
        current, unchanged = start, 0
        order = list(self.space)
        rng.shuffle(order)
        while unchanged < len(order) and self.left > 0:
            for name in order:
                found = self.ask(self.neighbours(current.recipe, name), stage)
                best = max([current, *found], key=lambda trial: trial.value)
                unchanged = 0 if best.value > current.value else unchanged + 1
                current = best
                if unchanged >= len(order) or self.left <= 0:
                    break
        return current

    def random(self, rng: np.random.Generator, number: int) -> Recipe:
        picked = {name: choices[int(rng.integers(len(choices)))] for name, choices in self.space.items()}
        return _changed(Recipe(f"random {number}"), **picked)


def search(judge: Judge, *, budget: int, seed: int = 0, space: Mapping[str, Sequence[Any]] = SPACE) -> Search:
    """Presets first; then down from the best of them; then from random recipes, while the budget lasts."""
    state, rng = Search(judge, budget, space), np.random.default_rng(seed)
    state.ask([recipe for _, recipe in recipes.items()], "preset")
    state.descend(state.best, "from the best preset", rng)
    restarts = 0
    while state.left > 0 and restarts < 10 * budget:  # a small space may hold fewer recipes than the budget
        restarts += 1
        for trial in state.ask([state.random(rng, restarts)], f"restart {restarts}"):
            state.descend(trial, f"restart {restarts}", rng)
    return state


def choices_of(recipe: Recipe) -> tuple[Any, ...]:
    """What tells recipes apart. With P detached nothing passes through q and k, so their scale says nothing."""
    scores = 1.0 if recipe.softmax == "detach" else recipe.scores
    rest = ("values", "activation", "product", "norm", "linear", "conv")
    return (recipe.softmax, scores, *(getattr(recipe, name) for name in rest))


def _changed(recipe: Recipe, **changes: Any) -> Recipe:
    made = recipe.but(source="", **changes)
    parts = [made.softmax, made.scores, made.values, made.activation, made.product, made.norm, _rule(made.linear)]
    return made.but(name="/".join(f"{p:g}" if isinstance(p, float) else str(p) for p in parts))


def _rule(rule: Any) -> str:
    return f"γ{rule.gamma:g}" if isinstance(rule, Gamma) else type(rule).__name__.lower()
