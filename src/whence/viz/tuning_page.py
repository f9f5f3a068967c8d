"""What a search for a recipe found: the recipe, how good it is on examples it has not seen, which choices mattered."""

from __future__ import annotations

import html

from whence.results.showing import draws
from whence.results.tuning import Tuning
from whence.viz.cards import Card, facts, paragraph, report
from whence.viz.evaluation_page import table_of
from whence.viz.evaluations import charts_of
from whence.viz.figure import Figure, figure_of
from whence.viz.html import CARD
from whence.viz.tabular import Grid, latex, notebook
from whence.viz.verdicts import verdict

__all__ = ["choices", "fragment", "page", "summary", "tex"]


def choices(result: Tuning) -> Grid:
    """A row per field of the recipe: what was chosen, and what the others would have cost."""
    rows = [
        (
            effect.field,
            effect.chosen,
            ", ".join(f"{name} {loss:+.4f}" for name, loss in effect.alternatives.items()) or "not tried",
        )
        for effect in result.effects
    ]
    note = f"Loss of {result.metric} on the {result.calibration} calibration examples; positive is worse."
    return Grid.of(
        "The recipe", ("choice", "chosen", "loss with another"), rows, words=frozenset({0, 1, 2}), notes=(note,)
    )


def trials(result: Tuning) -> Grid:
    rows = [(str(t["recipe"]), str(t["stage"]), f"{float(t['value']):.4f}") for t in result.trials]
    return Grid.of("Recipes that were tried", ("recipe", "stage", result.metric), rows, words=frozenset({0, 1}))


def use(result: Tuning) -> str:
    name = result.recipe.name
    return f'Save it with result.save("{name}.json"), and explain with method="{name}.json".'


@figure_of(Tuning)
def summary(result: Tuning) -> Figure:
    """The metric on held-out examples, the tuned recipe beside the presets."""
    return charts_of(result.held_out)[0]


@draws(Tuning, "html")
def page(result: Tuning) -> str:
    """Verdict, recipe, held-out values, all trials."""
    held = result.held_out
    fields = {str(k): v for k, v in result.settings.get("choices", {}).items()}
    recipe = (facts({"name": result.recipe.name, **fields}), paragraph(use(result), quiet=True))
    return report(
        title=f"A recipe for {held.settings.get('model', 'this model')}",
        verdict=verdict(result),
        parts=[
            Card("The recipe", recipe),
            Card("Which choices mattered", (choices(result),)),
            Card(f"On {len(held)} examples that the search has not seen", (table_of(held), *charts_of(held))),
            Card(f"The {len(result.trials)} recipes that were tried", (trials(result),)),
        ],
        stamp={k: v for k, v in held.settings.items() if k != "metrics"} | {"calibration": result.calibration},
    )


@draws(Tuning, "notebook")
def fragment(result: Tuning) -> str:
    """Verdict, held-out values and choices in one <div>."""
    return (
        f'<div style="{CARD}"><div><b>{html.escape(verdict(result))}</b></div>{notebook(table_of(result.held_out))}'
        f"{notebook(choices(result))}</div>"
    )


@draws(Tuning, "tex")
def tex(result: Tuning) -> str:
    """The held-out values."""
    return latex(table_of(result.held_out))
