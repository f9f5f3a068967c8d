"""A finished answer: which document did it come from, where the model would have put it in other words?

The questions of `sources`, five documents of one sentence each, and the right words as the whole answer ("Cork City."),
whether or not the model would write them. What differs is the target: each word against its runner-up, as a trace has
it (`exact`), its logit, its log-probability, or against what the model would say without the documents (`cite`). That
was chosen on questions behind the first 109.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language.asking import Reader, cost, interval, ranked, shown
from benchmarks.language.questions import Question, questions
from benchmarks.language.removal import Case, document_blocks
from benchmarks.language.sources import is_first
from whence.results.citations import shares_of
from whence.verbs.cite import TASK, Prompt

__all__ = ["METHODS", "NAME", "QUICK_CASES", "QUICK_METHODS", "measured", "section"]

NAME = "answers"
DOCUMENTS = 5
METHODS = ("random", "nearest", "exact", "exact score=logit", "exact score=logprob", "cite", "leave_one_out")
QUICK_METHODS, QUICK_CASES = METHODS, 3
MEASURES = {"first": "right document first", "share": "its share of what speaks for the answer, among documents"}
BASE = "exact"


def finished(answer: str) -> str:
    """The right words as a sentence of their own."""
    words = answer.strip().rstrip(".")
    return f"{words[:1].upper()}{words[1:]}."


def measured(name: str, reader: Reader, data: Path, methods: tuple[str, ...], count: int) -> dict[str, Any]:
    """Whether each method puts the right document first, on the first `count` questions."""
    made: dict[str, dict[str, list[float]]] = {m: {k: [] for k in [*MEASURES, "seconds"]} for m in methods}
    asked: list[dict[str, Any]] = []
    begin = time.perf_counter()
    for question in questions(data, DOCUMENTS, short=True):
        case = _case(reader, question, len(asked))
        for method in methods:
            scores, seconds = case.scores(method)
            made[method]["first"].append(is_first(scores, question.right))
            made[method]["share"].append(shares_of(dict(enumerate(scores)))[question.right])
            made[method]["seconds"].append(seconds)
        whole, alone = case.log_p(np.stack([case.everything, ~case.everything]))
        asked.append({
            "id": question.id, "answer": finished(question.answer), "tokens": case.example.count,
            "forward": case.forward, "log_p": float(whole), "log_p_without_documents": float(alone),
        })  # fmt: skip
        print(f"{name}: {len(asked)} of {count}, {time.perf_counter() - begin:.0f} s", flush=True)
        if len(asked) >= count or reader.late:
            break
    return {
        "name": name, "model": reader.name, "cases": len(asked), "asked": asked, "made": made,
        "cost": {m: cost(made[m]["seconds"], [row["forward"] for row in asked]) for m in methods},
    }  # fmt: skip


def _case(reader: Reader, question: Question, number: int) -> Case:
    prompt = Prompt(question.text, question.documents, TASK)
    example = prompt.encoded(reader.model, finished(question.answer), 1)
    return Case(reader, prompt, example, document_blocks(prompt), number)


def section(found: dict[str, Any]) -> str:
    """A table of the page."""
    tokens = np.mean([row["tokens"] for row in found["asked"]]) if found["asked"] else float("nan")
    lines = [
        f"### Finished answers: the right words, among {DOCUMENTS} documents of one sentence",
        "",
        f"{found['model']}, the first {found['cases']} questions; prompts of {tokens:.0f} tokens. The answer is given, "
        "in words that the model would not always choose. `exact` explains each word against its runner-up, as a trace "
        "does; `cite` is the same recipe with each word against what the model would say without the documents, as "
        "`whence.cite` has it.",
        "",
        f"| method | {' | '.join(MEASURES.values())} | first, against `{BASE}`, paired | cost, forward passes |",
        "| --- | --- | --- | --- | ---: |",
        *_rows(found),
    ]
    return "\n".join([*lines, ""])


def _rows(found: dict[str, Any]) -> Iterator[str]:
    if not found["cases"]:
        return
    for method, values, against in ranked(found["made"], "first", BASE):
        cells = [shown(interval(values[key])) for key in MEASURES]
        yield f"| `{method}` | {' | '.join(cells)} | {against} | {found['cost'][method]:.1f} |"
