"""The answers of `sources5` that `exact` gives to another document than the right one: whose mistake is it?

An answer that has the right words in it may go on with a sentence of another document, and then comes from both. So
its right words are asked about apart from the rest. Answers, and the scores of other methods, are those of the result
file of `sources5`. Targets share a forward pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language.asking import Reader
from benchmarks.language.questions import Question, questions
from benchmarks.language.removal import document_blocks, owners
from whence.methods.explaining import as_method, explain_examples
from whence.models.word_targets import Span
from whence.results.units import tokens_reading
from whence.verbs.cite import TASK, Prompt

__all__ = ["METHODS", "NAME", "QUICK_CASES", "QUICK_METHODS", "measured", "section"]

NAME = "mistaken"
RESULTS = Path(__file__).parents[1] / "results"
KNOWN = ("exact", "leave_one_out", "contextcite 256")
METHODS = (*KNOWN, "cite", "exact, right words", "cite, right words")
QUICK_METHODS, QUICK_CASES = METHODS, 1


def measured(name: str, reader: Reader, data: Path, methods: tuple[str, ...], count: int) -> dict[str, Any]:
    """Scores of the documents by every method, where `exact` is mistaken."""
    known = json.loads((RESULTS / f"language-sources5-{reader.name}.json").read_text(encoding="utf-8"))
    wrong = {row["id"]: n for n, row in enumerate(known["asked"]) if known["made"]["exact"]["first"][n] < 1}
    asked: list[dict[str, Any]] = []
    for question in questions(data, known["documents"]):
        if len(asked) >= min(count, len(wrong)):
            break
        if question.id in wrong:
            n = wrong[question.id]
            answer = known["asked"][n]["answer"]
            scores = {method: known["scores"][method][n] for method in KNOWN}
            scores |= _explained(reader, question, answer)
            asked.append({"id": question.id, "question": question.text, "words": question.answer, "answer": answer,
                          "right": question.right, "scores": scores})  # fmt: skip
            print(f"{name}: {len(asked)} of {len(wrong)}", flush=True)
    return {
        "name": name, "model": reader.name, "cases": len(asked), "of": known["cases"], "asked": asked, "made": {},
    }  # fmt: skip


def _explained(reader: Reader, question: Question, answer: str) -> dict[str, list[float]]:
    """The sum of each document's tokens, for all of the answer and for its right words."""
    prompt = Prompt(question.text, question.documents, TASK)
    example = prompt.encoded(reader.model, answer, 1)
    pieces = reader.model.pieces_written(example)
    words = tokens_reading(spelled(question.answer, "".join(pieces)), pieces)
    target = prompt.target(reader.model, example)
    targets = [target(0, len(pieces)), Span(words.start, words.stop), target(words.start, words.stop)]
    own = owners(prompt, example, document_blocks(prompt))
    made = {}
    found = explain_examples(reader.model, as_method("exact"), [example] * len(targets), targets)
    for method, one in zip(METHODS[len(KNOWN) :], found, strict=True):
        if isinstance(one, Exception):
            raise one
        made[method] = [float(one.scores[own == n].sum(dtype=np.float64)) for n in range(len(question.documents))]
    return made


def spelled(words: str, text: str) -> str:
    """Words as they are spelled in a text, in small or large letters."""
    at = text.casefold().find(words.casefold())
    return text[at : at + len(words)]


def section(found: dict[str, Any]) -> str:
    """A table of the page."""
    lines = [
        f"### Sources: the {found['cases']} of {found['of']} answers that `exact` gives to another document",
        "",
        "How much more the right document has than the best of the others, in the scores of each method: above 0 it is "
        "first. `cite`: each word against what the model would say without the documents. *Right words*: of all that "
        "was answered, the words that SQuAD has alone.",
        "",
        f"| question and answer | {' | '.join(f'`{method}`' for method in METHODS)} |",
        f"| --- |{' ---: |' * len(METHODS)}",
    ]
    for row in found["asked"]:
        leads = [_lead(np.array(row["scores"][method]), row["right"]) for method in METHODS]
        said = row["answer"].replace(row["words"], f"**{row['words']}**").replace("\n", " ")
        lines.append(f"| {row['question']} *{said}* | {' | '.join(f'{lead:+.1f}' for lead in leads)} |")
    return "\n".join([*lines, ""])


def _lead(scores: np.ndarray, right: int) -> float:
    return float(scores[right] - np.delete(scores, right).max())
