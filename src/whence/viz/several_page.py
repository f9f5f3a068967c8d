"""A list of results: one under the other in a notebook and in a terminal, a table of coloured texts as a page."""

from __future__ import annotations

import html
from typing import Any

from rich.console import Group
from rich.text import Text

from whence.errors import InputError
from whence.results import Explanation
from whence.results.percents import percent
from whence.results.several import Several
from whence.results.showing import draw, draws
from whence.viz.axes import minus
from whence.viz.chosen import explanation as figure
from whence.viz.figure import Figure, figure_of, pile
from whence.viz.latex import explanation as latex
from whence.viz.overlays import overlay
from whence.viz.report import document, still

__all__ = ["fragment", "page", "pictures", "plain", "terminal", "tex"]

SHOWN = 20
"""Results that a notebook or a terminal lists."""
DRAWN = 200
"""Results in one picture."""
LARGEST = 20_000
"""Rows of one page."""


def _more(found: Several[Any]) -> str:
    rest = len(found) - SHOWN
    return f"and {rest:,} more: save them as .html, .json or .txt" if rest > 0 else ""


@draws(Several, "notebook")
def fragment(found: Several[Any]) -> str:
    """Each as it shows itself, the first of many."""
    made = [_shown(one) for one in found[:SHOWN]]
    more = f"<div>{_more(found)}</div>" if _more(found) else ""
    return f"<div>{''.join(made)}{more}</div>" if found else "<div>an empty list</div>"


def _shown(one: Any) -> str:
    return str(draw(one, "notebook")) if hasattr(one, "_repr_html_") else f"<div>{html.escape(repr(one))}</div>"


@draws(Several, "terminal")
def terminal(found: Several[Any]) -> Group:
    parts: list[Any] = []
    for one in found[:SHOWN]:
        parts += [draw(one, "terminal") if hasattr(one, "__rich__") else Text(repr(one)), Text("")]
    return Group(*parts, *([Text(_more(found), style="dim")] if _more(found) else []))


@draws(Several, "txt")
def plain(found: Several[Any]) -> str:
    return "\n\n".join("" if one is None else str(one) for one in found)


@draws(Several, "tex")
def tex(found: Several[Any]) -> str:
    return "\n".join(latex(one) for one in _explanations(found))


@figure_of(Several)
def pictures(found: Several[Any]) -> Figure:
    """The figure of each, one under the other."""
    held = _explanations(found)
    if not held or len(held) > DRAWN:
        raise InputError(f"{len(held)} explanations make no figure: save up to {DRAWN}, found[:{DRAWN}], or as .html")
    return pile([figure(one) for one in held])


@draws(Several, "html")
def page(found: Several[Any]) -> str:
    """A row for each: what was predicted, how sure, and the text in colour. Rows can be sorted."""
    held = _explanations(found)
    if not held or len(held) > LARGEST:
        raise InputError(f"{len(held)} explanations make no page: save 1 to {LARGEST:,}, or run them with whence.run")
    first, labels = held[0], [exp.prediction.label for exp in held if exp.prediction.labels]
    counts = {label: labels.count(label) for label in dict.fromkeys(labels)}
    said = ", ".join(f"{label} {count}" for label, count in sorted(counts.items(), key=lambda item: -item[1])[:6])
    skipped = f" {len(found) - len(held)} could not be explained." if len(held) < len(found) else ""
    rows = "".join(_row(n, one) for n, one in enumerate(found) if one is not None)
    right = ' class="w-right"'
    columns = (("#", right), ("prediction", ""), ("sure", right), ("score", right))
    heads = "".join(f'<th scope="col"{side}>{name}</th>' for name, side in columns)
    name = (first.stamp or {}).get("model") or "the model"
    table = (
        f'<section class="w-card"><h2>Explanations by {html.escape(first.method)}</h2><div class="w-tablebox">'
        '<div class="w-scroll w-tall" tabindex="0" role="region" aria-label="Explanations">'
        f'<table class="w-table w-sortable w-list" aria-label="Explanations"><thead><tr>{heads}'
        f'<th scope="col">input</th></tr></thead><tbody>{rows}</tbody></table></div></div></section>'
    )
    return document(
        title=f"{len(held):,} inputs, explained",
        verdict=(f"Predicted: {said}." if said else f"{len(held):,} inputs of {name}.") + skipped,
        body=table,
        data={"copies": []},
        scripts=("base.js", "sheet.js", "sorting.js"),
    )


def _row(n: int, exp: Explanation) -> str:
    guess = exp.prediction
    sure = percent(guess.probabilities[0], 1) if guess.probabilities else ""
    score = minus(f"{exp.target_score:+.3f}")
    inner = "".join(_drawn(one) for one in exp.apart())
    return (
        f'<tr><td class="w-right">{n + 1}</td><td>{html.escape(guess.label if guess.labels else exp.target)}</td>'
        f'<td class="w-right">{sure}</td><td class="w-right">{score}</td><td>{inner}</td></tr>'
    )


def _drawn(exp: Explanation) -> str:
    made = exp.laid_out()
    return f'<div class="w-figure">{overlay(made).svg}</div>' if made.is_image else still(made)


def _explanations(found: Several[Any]) -> list[Explanation]:
    held = [one for one in found if one is not None]
    for one in held:
        if not isinstance(one, Explanation):
            kind = type(one).__name__
            raise InputError(f"a list of {kind}s is saved one by one: for n, one in enumerate(found): one.save(…)")
    return held
