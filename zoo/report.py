"""Write verdicts as docs/coverage.md."""

from __future__ import annotations

import platform
import re
from collections import Counter
from pathlib import Path

import torch
import transformers

from zoo.check import QUESTIONS, Verdict
from zoo.tasks import TASKS

MEANINGS = {
    "forward": "the outputs under the recipe equal the plain model's; in float64 where float32 rounds more than that",
    "conservation": "`exact`: inputs + biases and other constants = explained score",
    "batch": "two examples at once equal one by one",
    "padding": "three padding tokens change nothing and get nothing",
    "explain": "`whence.explain` on the tensors: the score is the model's called by hand, the receipt balances",
}


def write(verdicts: list[Verdict], path: str) -> None:
    built = [v for v in verdicts if v.is_built]
    passed = [v for v in built if v.passed]
    tasks = {name: task for name, task in TASKS.items() if any(v.task == name for v in verdicts)}
    lines = [
        "# Coverage",
        "",
        f"Made by `make zoo` with torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}, "
        f"Python {platform.python_version()}.",
        "",
        f"Every architecture of {len(tasks)} auto mappings, from a tiny random configuration with nonzero biases: "
        f"**{len(passed)} of the {len(built)} that are built pass all checks "
        f"({100 * len(passed) / max(1, len(built)):.1f} %)**; "
        f"{len(verdicts) - len(built)} of {len(verdicts)} can't be built here.",
        "",
        "| task | explained | pass | built | in the mapping |",
        "|---|---|---|---|---|",
    ]
    every, can, good = (Counter(v.task for v in group) for group in (verdicts, built, passed))
    lines += [
        f"| [{task.title}](#{_anchor(task.title)}) | {task.explains} | {good[name]} | {can[name]} | {every[name]} |"
        for name, task in tasks.items()
    ]
    lines += ["", "| check | means | relative error below |", "|---|---|---|"]
    lines += [f"| {name} | {MEANINGS[name]} | {limit:g} |" for name, limit in QUESTIONS.items()]
    lines += [
        "",
        "Inputs are tensors: token ids, pictures, films, sounds, series, and all of them that a model takes together. "
        "Of the scores of a task, the one furthest from zero is explained. Every number that goes in must matter to "
        "the score, or the model counts as not built. No code of the package names a model class. "
        "`–`: the question does not apply (no attention mask, or the model itself is not blind to padding, or to the "
        "other examples of a batch: these are explained one by one).",
        "",
        "## Exceptions",
        "",
        "| task | architecture | reason |",
        "|---|---|---|",
    ]
    lines += [f"| {v.task} | `{v.model_type}` | {explain_failure(v)} |" for v in built if not v.passed]
    lines += ["", "## Not built", "", "| task | architecture | reason |", "|---|---|---|"]
    lines += [f"| {v.task} | `{v.model_type}` | {v.reason.partition(': ')[2]} |" for v in verdicts if not v.is_built]
    for name, task in tasks.items():
        lines += [
            "",
            f"## {task.title}",
            "",
            f"| architecture | {' | '.join(QUESTIONS)} | |",
            f"|---|{'---|' * len(QUESTIONS)}---|",
        ]
        lines += [_row(v) for v in built if v.task == name]
    Path(path).write_text("\n".join(lines) + "\n")


def _anchor(title: str) -> str:
    """The name that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def explain_failure(verdict: Verdict) -> str:
    parts = [verdict.reason] if verdict.reason else []
    parts += [f"{name} {getattr(verdict, name):.1e}" for name in verdict.failures()]
    if verdict.unruled:
        parts.append("without a rule: " + ", ".join(f"`{name}`" for name in sorted(verdict.unruled)))
    note = NOTES.get((verdict.task, verdict.model_type)) or NOTES.get(("", verdict.model_type))
    return "; ".join(parts) + (f". {note}" if note else "")


# Why a check fails, where it was looked into. The numbers above come from the run, these words do not.
NOTES: dict[tuple[str, str], str] = {
    ("", "vibevoice_asr"): "It draws random numbers: two runs differ.",
}


def _row(v: Verdict) -> str:
    if v.reason:
        return f"| `{v.model_type}` |{' |' * len(QUESTIONS)} ✗ |"
    cells = " | ".join("–" if x != x else f"{x:.0e}" for x in (getattr(v, name) for name in QUESTIONS))
    return f"| `{v.model_type}` | {cells} | {'✓' if v.passed else '✗ ' + ', '.join(v.failures())} |"
