"""What the registry says about every method, for the command and the docs."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

from whence.core.recipe import Recipe, recipes
from whence.methods.method import class_of, methods
from whence.methods.propagate import DEFAULT_RECIPE, Propagate

__all__ = ["describe", "lines", "markdown", "option_table"]


def _summary(name: str) -> str:
    if name == "lrp":
        return f"the default: an alias of {DEFAULT_RECIPE}"
    if name in recipes:
        return f"{describe(recipes[name])} [{recipes[name].source}]"
    return (inspect.getdoc(class_of(name)) or "").splitlines()[0]


def describe(recipe: Recipe) -> str:
    """A recipe's choices on one line; what is plain gradient is left out."""
    parts = []
    if recipe.softmax != "gradient":
        parts.append("P detached" if recipe.softmax == "detach" else f"softmax at T={recipe.softmax:g}")
    if (recipe.scores, recipe.values) != (1, 1):
        parts.append(f"q,k,v × {recipe.scores:g},{recipe.scores:g},{recipe.values:g}")
    if recipe.activation != "gradient":
        parts.append({"slope": "activations by slope", "gate": "gates Φ(x) detached"}[recipe.activation])
    if recipe.product != "gradient":
        parts.append({"half": "products halved", "detach": "gate of products detached"}[recipe.product])
    if recipe.norm != "gradient":
        parts.append(f"norm: {recipe.norm.replace('_', ' ')}")
    return ", ".join(parts) or "plain gradient"


def lines() -> list[tuple[str, str]]:
    """Every method and its summary, by name."""
    return [(name, _summary(name)) for name in sorted(methods)]


def markdown() -> str:
    """docs/methods.md."""
    page = [
        "# Methods",
        "",
        "Made by `make docs` from the registry. `whence.explain(model, inputs, method=NAME, OPTION=…)`.",
        "",
        "## Propagation",
        "",
        (inspect.getdoc(Propagate) or "").replace("\n", "  \n"),
        "",
        "| method | softmax | q,k scale | v scale | activation | product | norm | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, r in recipes.items():
        choices = (r.softmax, f"{r.scores:g}", f"{r.values:g}", r.activation, r.product, r.norm, r.source)
        page.append(f"| `{name}` | {' | '.join(map(str, choices))} |")
    page += ["", f"`lrp` is the default and an alias of `{DEFAULT_RECIPE}`.", "", *option_table(Propagate), ""]
    others = [name for name in methods if name not in recipes and name != "lrp"]
    for name in others:
        made = class_of(name)
        page += [f"## `{name}`", "", inspect.getdoc(made) or "", ""]
        specific = "class-specific" if made.class_specific else "class-agnostic: the same for every target"
        page += [f"Cost: {made.cost}. {specific.capitalize()}.", "", *option_table(made), ""]
    return "\n".join(page).rstrip()


def option_table(made: Any) -> list[str]:
    """The options as a table; their docs are the strings under the fields."""
    source = "\n".join(inspect.getsource(c) for c in inspect.getmro(made) if hasattr(c, "__dataclass_fields__"))
    rows = ["| option | default | |", "|---|---|---|"]
    for f in fields(made):
        found = re.search(rf'^    {f.name}:[^\n]*\n    """(.*?)"""', source, re.S | re.M)
        text = " ".join(found.group(1).split()) if found else ""
        default = "" if f.name == "recipe" else f"`{f.default!r}`"
        escaped = text.replace("|", "\\|")
        rows.append(f"| `{f.name}` | {default} | {escaped} |")
    return rows
