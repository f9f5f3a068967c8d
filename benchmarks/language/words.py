"""The answers of the table of `sources` again: is the right document first for the right words, apart from the rest?

An answer that has the right words in it may go on with a sentence of another document, and is then explained by that
document as well, rightly. So its words are asked about as well: the tokens of the answer that read as SQuAD's answer.
Answers are read from the result file of `sources5`, whose own scores stand beside. Targets share a forward pass.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language.asking import Reader, interval, ranked, shown
from benchmarks.language.questions import questions
from benchmarks.language.removal import document_blocks, owners
from benchmarks.language.sources import is_first
from whence.methods.explaining import as_method, explain_examples
from whence.models.word_targets import Span
from whence.results.units import tokens_reading
from whence.verbs.cite import TASK, Prompt

__all__ = ["METHODS", "NAME", "QUICK_CASES", "QUICK_METHODS", "measured", "section"]

NAME = "words"
RESULTS = Path(__file__).parents[1] / "results"
METHODS = ("exact", "cite", "exact, the right words", "cite, the right words")
QUICK_METHODS, QUICK_CASES = METHODS, 2
BASE = "exact"


def measured(name: str, reader: Reader, data: Path, methods: tuple[str, ...], count: int) -> dict[str, Any]:
    """Whether the right document is first, for the whole answer and for its right words."""
    known = json.loads((RESULTS / f"language-sources5-{reader.name}.json").read_text(encoding="utf-8"))
    asked = {row["id"]: n for n, row in enumerate(known["asked"])}
    made: dict[str, dict[str, list[float]]] = {m: {"first": []} for m in methods}
    scores: dict[str, list[list[float]]] = {m: [] for m in methods}
    begin, ids = time.perf_counter(), []
    for question in questions(data, known["documents"]):
        if len(ids) >= min(count, len(asked)) or reader.late:
            break
        if question.id not in asked:
            continue
        n = asked[question.id]
        prompt = Prompt(question.text, question.documents, TASK)
        example = prompt.encoded(reader.model, known["asked"][n]["answer"], 1)
        own = owners(prompt, example, document_blocks(prompt))
        target = prompt.target(reader.model, example)
        pieces = reader.model.pieces_written(example)
        words = tokens_reading(_spelled(question.answer, "".join(pieces)), pieces)
        part = words.start, words.stop
        targets = [target(0, len(pieces)), Span(*part), target(*part)]
        found = explain_examples(reader.model, as_method("exact"), [example] * 3, targets)
        rows = [np.array([e.scores[own == k].sum(dtype=np.float64) for k in range(5)]) for e in found]
        for method, row in zip(METHODS, [np.array(known["scores"]["exact"][n]), *rows], strict=True):
            made[method]["first"].append(is_first(row, question.right))
            scores[method].append(row.tolist())
        ids.append(question.id)
        print(f"{name}: {len(ids)} of {len(asked)}, {time.perf_counter() - begin:.0f} s", flush=True)
    return {"name": name, "model": reader.name, "cases": len(ids), "ids": ids, "made": made, "scores": scores}


def _spelled(words: str, text: str) -> str:
    """Words as they are spelled in a text, in small or large letters."""
    at = text.casefold().find(words.casefold())
    return text[at : at + len(words)]


def section(found: dict[str, Any]) -> str:
    """A table of the page."""
    lines = [
        "### Sources: the right words of the answer apart from the rest",
        "",
        f"{found['model']}, {found['cases']} of the answers among 5 documents. `cite`: each word against what the "
        "model would say without the documents; `exact`: against its runner-up.",
        "",
        f"| method | right document first | against `{BASE}`, paired |",
        "| --- | --- | --- |",
        *_rows(found),
    ]
    return "\n".join([*lines, ""])


def _rows(found: dict[str, Any]) -> Iterator[str]:
    if found["cases"]:
        for method, values, against in ranked(found["made"], "first", BASE):
            yield f"| `{method}` | {shown(interval(values['first']))} | {against} |"
