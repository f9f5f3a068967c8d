"""A finished answer: which document did it come from, where the model would have put it in other words?

The questions of `sources`, five documents of one sentence each, and the right words as the whole answer ("Cork City."),
whether or not the model would write them. What differs is the target: each word against its runner-up, as a trace has
it (`exact`), its logit, its log-probability, or against what the model would say without the documents (`cite`). That
was chosen on eleven questions behind the first 109. Targets share a forward pass.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language.asking import Reader, interval, ranked, shown
from benchmarks.language.questions import Question, questions
from benchmarks.language.removal import document_blocks, owners
from benchmarks.language.sources import is_first
from whence.methods.explaining import as_method, explain_examples
from whence.models.word_targets import Span
from whence.results.citations import shares_of
from whence.verbs.cite import TASK, Prompt

__all__ = ["METHODS", "NAME", "QUICK_CASES", "QUICK_METHODS", "finished", "measured", "section"]

NAME = "answers"
DOCUMENTS = 5
METHODS = ("exact", "exact score=logit", "exact score=logprob", "cite")
QUICK_METHODS, QUICK_CASES = METHODS, 3
MEASURES = {"first": "right document first", "share": "its share of what speaks for the answer, among documents"}
BASE = "exact"


def finished(answer: str) -> str:
    """The right words as a sentence of their own."""
    words = answer.strip().rstrip(".")
    return f"{words[:1].upper()}{words[1:]}."


def measured(name: str, reader: Reader, data: Path, methods: tuple[str, ...], count: int) -> dict[str, Any]:
    """Whether the right document is first, for each target, on the first `count` questions."""
    made: dict[str, dict[str, list[float]]] = {method: {key: [] for key in MEASURES} for method in METHODS}
    asked: list[dict[str, Any]] = []
    begin = time.perf_counter()
    for question in questions(data, DOCUMENTS, short=True):
        tokens, found = _explained(reader, question)
        for method, scores in zip(METHODS, found, strict=True):
            made[method]["first"].append(is_first(scores, question.right))
            made[method]["share"].append(shares_of(dict(enumerate(scores)))[question.right])
        asked.append({"id": question.id, "answer": finished(question.answer), "tokens": tokens})
        print(f"{name}: {len(asked)} of {count}, {time.perf_counter() - begin:.0f} s", flush=True)
        if len(asked) >= count or reader.late:
            break
    return {"name": name, "model": reader.name, "cases": len(asked), "asked": asked, "made": made}


def _explained(reader: Reader, question: Question) -> tuple[int, list[np.ndarray]]:
    """Tokens of the prompt, and the sum of each document's tokens for each target."""
    prompt = Prompt(question.text, question.documents, TASK)
    example = prompt.encoded(reader.model, finished(question.answer), 1)
    cites = prompt.target(reader.model, example)(0, len(example.written))
    targets = [Span(), Span(score="logit"), Span(score="logprob"), cites]
    own = owners(prompt, example, document_blocks(prompt))
    found = explain_examples(reader.model, as_method("exact"), [example] * len(targets), targets)
    made = []
    for one in found:
        if isinstance(one, Exception):
            raise one
        made.append(np.array([one.scores[own == n].sum(dtype=np.float64) for n in range(DOCUMENTS)]))
    return example.count, made


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
        f"| method | {' | '.join(MEASURES.values())} | first, against `{BASE}`, paired |",
        "| --- | --- | --- | --- |",
        *_rows(found),
    ]
    return "\n".join([*lines, ""])


def _rows(found: dict[str, Any]) -> Iterator[str]:
    if not found["cases"]:
        return
    for method, values, against in ranked(found["made"], "first", BASE):
        cells = [shown(interval(values[key])) for key in MEASURES]
        yield f"| `{method}` | {' | '.join(cells)} | {against} |"
