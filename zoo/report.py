"""Write verdicts as docs/coverage.md."""

from __future__ import annotations

import platform
from collections import Counter
from pathlib import Path

import torch
import transformers

from zoo.check import BATCH, CONSERVATION, FORWARD, PADDING, Verdict

TITLES = {
    "sequence-classification": "Sequence classification",
    "causal-lm": "Causal language models",
    "seq2seq-lm": "Encoder-decoder language models",
    "image-classification": "Image classification",
}


def write(verdicts: list[Verdict], path: str) -> None:
    built = [v for v in verdicts if not v.reason.startswith("can't be built")]
    passed = [v for v in built if v.passed]
    lines = [
        "# Coverage",
        "",
        f"Made by `make zoo` with torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}, "
        f"Python {platform.python_version()}.",
        "",
        f"Every architecture of the four auto mappings, from a tiny random configuration with nonzero biases: "
        f"**{len(passed)} of the {len(built)} that can be built pass all checks "
        f"({100 * len(passed) / max(1, len(built)):.1f} %)**; "
        f"{len(verdicts) - len(built)} of {len(verdicts)} can't be built here.",
        "",
        "| check | means | relative error below |",
        "|---|---|---|",
        f"| forward | logits under the recipe equal the plain model's | {FORWARD:g} |",
        f"| conservation | `exact`: inputs + biases and other constants = explained logit | {CONSERVATION:g} |",
        f"| batch | two examples at once equal one by one | {BATCH:g} |",
        f"| padding | three padding tokens change nothing and get nothing | {PADDING:g} |",
        "",
        "No code names a model class. `–`: the question does not apply (no attention mask).",
        "",
        "| task | pass | can be built | in the mapping |",
        "|---|---|---|---|",
    ]
    every, can, good = (Counter(v.task for v in group) for group in (verdicts, built, passed))
    lines += [f"| {title} | {good[task]} | {can[task]} | {every[task]} |" for task, title in TITLES.items()]
    lines += ["", "## Exceptions", "", "| task | architecture | reason |", "|---|---|---|"]
    lines += [f"| {v.task} | `{v.model_type}` | {v.reason or explain_failure(v)} |" for v in verdicts if not v.passed]
    for task, title in TITLES.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| architecture | forward | conservation | batch | padding | |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(v) for v in verdicts if v.task == task]
    Path(path).write_text("\n".join(lines) + "\n")


def explain_failure(verdict: Verdict) -> str:
    parts = [f"{name} {getattr(verdict, name):.1e}" for name in verdict.failures()]
    if verdict.unruled:
        parts.append("without a rule: " + ", ".join(f"`{name}`" for name in sorted(verdict.unruled)))
    note = NOTES.get((verdict.task, verdict.model_type)) or NOTES.get(("", verdict.model_type))
    return "; ".join(parts) + (f". {note}" if note else "")


# Why a check fails, where it was looked into. The numbers above come from the run, these words do not.
NOTES: dict[tuple[str, str], str] = {
    ("", "bloom"): "Its GELU is a `torch.autograd.Function` of its own; it keeps its plain gradient.",
    ("", "recurrent_gemma"): "Its gate is a `torch.autograd.Function` of its own; it keeps its plain gradient.",
    ("", "yoso"): "Its attention is a `torch.autograd.Function` whose backward is an approximation.",
    ("", "nystromformer"): "The model scales its pseudo-inverse by a maximum over the batch: its examples mix.",
}


def _row(v: Verdict) -> str:
    if v.reason:
        return f"| `{v.model_type}` | | | | | {v.reason} |"
    cells = " | ".join("–" if x != x else f"{x:.0e}" for x in (v.forward, v.conservation, v.batch, v.padding))
    return f"| `{v.model_type}` | {cells} | {'✓' if v.passed else '✗ ' + ', '.join(v.failures())} |"
