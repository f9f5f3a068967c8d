"""The menu. A section is a title and its entries; a page is a title and its file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from docs.generate.method_pages import GROUPS
from docs.generate.notebooks import NOTEBOOKS
from docs.generate.reference import PAGES

__all__ = ["NAVIGATION", "Entry", "check", "files", "toml"]

Entry: TypeAlias = "tuple[str, str | Sequence[Entry]]"

NAVIGATION: list[Entry] = [
    (
        "Start",
        [
            ("whence", "index.md"),
            ("Quick start", "quickstart.md"),
            ("Which method?", "chooser.md"),
            ("Questions and errors", "faq.md"),
            ("How it compares", "comparison.md"),
            ("Vocabulary", "vocabulary.md"),
        ],
    ),
    (
        "Guides",
        [
            ("My classifier", "guides/classifier.md"),
            ("My language model", "language_models.md"),
            ("Citations (RAG)", "guides/citations.md"),
            ("Pictures", "guides/images.md"),
            ("Sounds", "guides/sounds.md"),
            ("Similarity and retrieval", "similarity.md"),
            ("Data sets", "guides/data_sets.md"),
            ("On a cluster", "cluster.md"),
            ("Long inputs and GPUs", "guides/long_inputs.md"),
            ("Figures for papers", "guides/paper_figures.md"),
            ("What goes in", "inputs.md"),
            ("Inside a model", "inside.md"),
            ("Graphs", "graphs.md"),
            ("Patching", "patching.md"),
            ("Concepts (TCAV)", "tcav.md"),
            ("Which explanation is right?", "evaluation.md"),
            ("Is attention an explanation?", "attention_debate.md"),
            ("The web page and its API", "serve.md"),
            ("What a run promises", "reliability.md"),
            ("Notebooks", [(title, f"notebooks/{name}.md") for name, title in NOTEBOOKS.items()]),
        ],
    ),
    (
        "Methods",
        [
            ("All on one page", "methods.md"),
            *((group, [(name, f"methods/{name}.md") for name in names]) for group, names in GROUPS.items()),
        ],
    ),
    ("Gallery", [("Gallery", "gallery.md"), ("Figures and their options", "figures.md")]),
    (
        "Reference",
        [
            *((title, f"reference/{page}.md") for page, (title, _) in PAGES.items()),
            ("The command", "reference/commands.md"),
        ],
    ),
    (
        "Results",
        [
            ("Faithfulness", "results.md"),
            ("Language models", "results_language.md"),
            ("Known evidence", "truth.md"),
            ("Coverage", "coverage.md"),
            ("Speed and memory", "benchmarks.md"),
            ("Attention methods", "benchmarks_attention.md"),
            ("On a GPU", "benchmarks_gpu.md"),
            ("Written text", "benchmarks_writing.md"),
            ("Data sets at scale", "scale.md"),
        ],
    ),
    (
        "Project",
        [
            ("Writing a recipe, method or adapter", "contributing.md"),
            ("Changes", "changelog.md"),
            ("Security of the server", "security.md"),
            ("Reporting a hole", "reporting.md"),
            ("Conduct", "conduct.md"),
            ("Releasing", "releasing.md"),
            ("For coding agents", "skill.md"),
        ],
    ),
]


def files(entries: Sequence[Entry]) -> Iterator[str]:
    """The pages of a menu, in order."""
    for _, what in entries:
        if isinstance(what, str):
            yield what
        else:
            yield from files(what)


def check(entries: Sequence[Entry], pages: set[str]) -> None:
    """Every page is in the menu once, and the menu names no other."""
    named = list(files(entries))
    wrong = {
        "in no menu (docs/generate/navigation.py)": pages - set(named),
        "in the menu, but there is no such page": set(named) - pages,
        "in the menu twice": {name for name in named if named.count(name) > 1},
    }
    found = [f"{what}: {', '.join(sorted(names))}" for what, names in wrong.items() if names]
    if found:
        raise SystemExit("; ".join(found))


def toml(entries: Sequence[Entry]) -> str:
    """The menu as a line of zensical.toml."""
    return f"nav = {_value(entries)}"


def _value(what: str | Sequence[Entry]) -> str:
    if isinstance(what, str):
        return json.dumps(what)
    return "[" + ", ".join(f"{{ {json.dumps(title)} = {_value(inner)} }}" for title, inner in what) + "]"
