"""Figures of the front page: what was covered and how faithful it was, read from the pages and files that hold them."""

from __future__ import annotations

import re

from docs.generate.measured import costs, measured
from docs.generate.written import DOCS
from whence.core.recipe import recipes
from whence.methods.method import methods
from whence.methods.propagate import DEFAULT_RECIPE
from whence.results.percents import percent

__all__ = ["figures"]

COVERED = re.compile(
    r"Every architecture of (?P<maps>\d+) auto mappings.*?\*\*(?P<passed>\d+) of the (?P<built>\d+) that are built pass"
)


def figures() -> str:
    """A table of numbers, each with the page that has the rest."""
    covered = COVERED.search((DOCS / "coverage.md").read_text(encoding="utf-8"))
    if covered is None:
        raise SystemExit("docs/coverage.md no longer says how many architectures pass: docs/generate/front.py reads it")
    values, table = measured(), costs()
    mine = table["methods"][DEFAULT_RECIPE]
    others = ", ".join(f"`{n}` {values['auac'][n]:.2f}" for n in ("gi", "gae", "rollout", "random"))
    tags = ", ".join(f"`{n}` {percent(values['tag'][n], 0)}" for n in ("gi", "gae", "rollout"))
    found = ", ".join(f"`{n}` {percent(values['needle'][n], 0)}" for n in ("gi", "gae", "rollout"))
    rows = [
        f"| **{covered['passed']} of {covered['built']}** | architectures of {covered['maps']} tasks pass every "
        "check | [coverage](coverage.md) |",
        f"| **{values['auac'][DEFAULT_RECIPE]:.2f}** | AUAC of `lrp` over models and tasks; {others} | "
        "[results](results.md) |",
        f"| **{percent(values['tag'][DEFAULT_RECIPE], 0)}** | of the relevance is in a planted tag by `lrp`; {tags} | "
        "[Clever Hans](results.md#clever-hans-with-known-truth) |",
        f"| **{percent(values['needle'][DEFAULT_RECIPE], 0)}** | of the needles that a model found are the strongest "
        f"word by `lrp`; {found} | [language models](results_language.md) |",
        f"| **{mine['time']:.1f} ×** | the time of a forward pass, with the receipt | [cost](chooser.md) |",
        f"| **{len(methods)}** | methods, {len(recipes)} of them recipes | [methods](methods.md) |",
    ]
    return "\n".join(["| | | |", "|---:|---|---|", *rows])
