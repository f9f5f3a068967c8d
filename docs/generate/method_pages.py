"""One page for every registered method: what it computes, its picture, options, cost and how faithful it was."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

from docs.generate.measured import MEASURES, costs, facts, measured
from docs.generate.written import ROOT
from whence.core.recipe import Recipe, recipes
from whence.methods.listing import describe, option_table
from whence.methods.method import class_of, methods
from whence.methods.propagate import DEFAULT_RECIPE

__all__ = ["GROUPS", "TEXT", "best", "example", "method_pages", "pictures"]

THREE = ROOT / "src" / "whence" / "web" / "examples" / "digit-3.png"
TEXT = "not a good movie, but the actors are wonderful"
CHOICES: Mapping[str, Mapping[Any, str]] = {
    "softmax": {
        "gradient": "the gradient",
        "detach": "P is a constant: nothing goes back through queries and keys",
    },
    "activation": {
        "gradient": "the gradient f′(x)",
        "slope": "the slope: f(x) = [f(x)/x] · x with [·] constant",
        "gate": "x · [Φ(x)] with the gate [·] constant",
    },
    "product": {
        "gradient": "the gradient: each side gets all of it",
        "half": "both sides get half",
        "detach": "the gate is a constant",
    },
    "norm": {
        "gradient": "the gradient",
        "detach": "the deviation is a constant: (x − mean) / [σ]",
        "detach_mean": "mean and deviation are constants",
        "identity": "nothing: passed on as it is",
    },
}
FUNCTIONS = {
    "softmax": "P = softmax(q·k)",
    "activation": "activations: GELU, SiLU, tanh, …",
    "product": "products: act(g) · u, q · k, …",
    "norm": "norms: LayerNorm, RMSNorm, …",
}
FORMULA = re.compile(r"^(?P<words>.*?): (?P<formula>.*[=←].*?)(?:\s+\[(?P<source>.*)\]\.?)?$")


def groups() -> dict[str, list[str]]:
    """Names of methods under what they propagate or do; `lrp` is the first of them all."""
    made: dict[str, list[str]] = {
        "Propagation": ["lrp"],
        "Attention": [],
        "Gradients": [],
        "Taking away": [],
        "Control": [],
    }
    for name in methods:
        if name in recipes:
            made["Propagation"].append(name)
        elif name != "lrp":
            made[_group(name)].append(name)
    return made


def _group(name: str) -> str:
    if name == "random":
        return "Control"
    if ".attention." in class_of(name).__module__:
        return "Attention"
    return "Gradients" if "backward" in class_of(name).cost else "Taking away"


GROUPS = groups()


def example(name: str) -> str:
    """The code on the page of a method; `pictures` runs it."""
    return f"""import whence

exp = whence.explain("sentiment", "{TEXT}", method="{name}")
print(exp.top(3))
exp.save("{name}-text.svg")

exp = whence.explain("digits", "three.png", method="{name}")
exp.save("{name}-picture.svg")
"""


def pictures(folder: Path) -> None:
    """What the examples of all pages write."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(THREE, folder / "three.png")
    with chdir(folder):
        for name in methods:
            exec(compile(example(name), f"<example of {name}>", "exec"), {"print": lambda *_: None})


def method_pages() -> dict[str, str]:
    """`methods/NAME.md` for every name."""
    values = measured()
    return {f"methods/{name}.md": _page(name, values) for name in methods}


def _page(name: str, values: dict[str, dict[str, float]]) -> str:
    key = DEFAULT_RECIPE if name == "lrp" else name
    lines = [f"# `{name}`", ""]
    lines += _of_recipe(name, recipes[key]) if key in recipes else _of_class(name)
    lines += [
        "## Picture and code",
        "",
        f"![{TEXT}, by {name}](pictures/{name}-text.svg)",
        "",
        f"![A three, by {name}](pictures/{name}-picture.svg)",
        "",
        "```python",
        example(name).rstrip(),
        "```",
        "",
        "The models come with the package, and [the picture](pictures/three.png) is yours to download. Orange speaks "
        "for the target, blue against it. The figures were drawn by this code when the site was built.",
        "",
    ]
    lines += ["## Cost", "", _cost(key), "", "## How faithful", "", *_faithful(key, values), ""]
    lines += ["## Options", "", *option_table(class_of(name)), ""]
    return "\n".join(lines)


def _of_recipe(name: str, recipe: Recipe) -> list[str]:
    alias = [f"The default: an alias of [`{recipe.name}`]({recipe.name}.md).", ""] if name == "lrp" else []
    rows = [
        f"| {FUNCTIONS[kind]} | `{value}` | {CHOICES[kind].get(value, f'the gradient at temperature {value}')} |"
        for kind, value in ((kind, getattr(recipe, kind)) for kind in FUNCTIONS)
    ]
    return [
        *alias,
        f"{describe(recipe).capitalize()}.",
        "",
        "```text",
        "R_t = Σ_d x_td · ∂f/∂x_td",
        "```",
        "",
        "where the backward pass is the gradient but for:",
        "",
        "| function | choice | backward |",
        "|---|---|---|",
        *rows,
        f"| the path through q and k | × {recipe.scores:g} | |",
        f"| the path through v | × {recipe.values:g} | |",
        "",
        f"Source: {recipe.source}.",
        "",
    ]


def _of_class(name: str) -> list[str]:
    first, _, rest = (inspect.getdoc(class_of(name)) or "").partition("\n")
    found = FORMULA.match(first)
    lines = [f"{found['words']}:", "", "```text", found["formula"].rstrip("."), "```", ""] if found else [first, ""]
    if found and found["source"]:
        lines += [f"Source: {found['source']}.", ""]
    specific = class_of(name).class_specific
    about = "Another target gives another explanation." if specific else "The same for every target (class-agnostic)."
    return [*lines, rest.strip(), "", about, ""]


def _cost(name: str) -> str:
    table = costs()
    found = table["methods"].get(name)
    if found is None:
        return f"{class_of(name).cost}. Not measured."
    return (
        f"{class_of(name).cost}. Measured: **{found['time']:.1f}** times a forward pass, **{found['mib']:.0f} MiB** at "
        f"the peak beside the model (a forward pass: {table['forward_mib']:.0f} MiB). {table['workload']}; "
        f"`{table['command']}`."
    )


def _faithful(name: str, values: dict[str, dict[str, float]]) -> list[str]:
    known = [measure for measure in MEASURES if name in values[measure.name]]
    if not known:
        return ["Not measured on any task so far. `whence.evaluate` measures it on yours."]
    rows = []
    for measure in known:
        found = values[measure.name]
        first = best(found, measure.low)
        mine, chance, top = (f"{found[n]:.{measure.digits}f}" for n in (name, "random", first))
        rows.append(f"| [{measure.title}](../{measure.page}) | {mine} | {chance} | {top} (`{first}`) |")
    said = [f"- {m.title}: {m.means.format(**facts())}; {'low' if m.low else 'high'} is good." for m in known]
    head = ["| | this | random | best of all |", "|---|---:|---:|---|"]
    return [*head, *rows, "", *said, "", "[Which method?](../chooser.md) has all of them side by side."]


def best(found: dict[str, float], low: bool) -> str:
    """The best of the registered methods; `random` is none."""
    names = [n for n in found if n in methods and n != "random"]
    return min(names, key=lambda n: (found[n] if low else -found[n], n))
