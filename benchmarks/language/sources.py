"""Which document did the answer come from? SQuAD questions with the right paragraph among others, half of them of the
same article.

The prompt is that of `whence.cite`; the model writes the answer itself, and counted are answers with the right words in
them. A document's score is the sum of its tokens' scores for the whole answer. *LDS* [ContextCite]: documents are kept
with probability ½; Spearman's correlation of the kept documents' scores, summed, with the true logit of the answer's
probability, over subsets that no method saw. *Top-k drop*: what the answer's log-probability loses without the k
documents of highest score. *leave_one_out* is that loss for one document; *contextcite n* is our writing of its
authors' algorithm, with n ablations.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.language.asking import Reader, cost, interval, ranked, shown
from benchmarks.language.contextcite import every_subset, lds, top_drop
from benchmarks.language.questions import Question, questions, says, spelled
from benchmarks.language.removal import ANSWER, METHODS, QUICK_METHODS, Case, answered, document_blocks
from whence.results.units import tokens_reading
from whence.verbs.cite import TASK, Prompt

__all__ = ["DOCUMENTS", "METHODS", "QUICK_CASES", "QUICK_METHODS", "again", "measured", "section"]

DOCUMENTS = {"sources5": 5, "sources20": 20}
MEASURES = {
    "words": "right document first, for the right words", "first": "for the whole answer", "lds": "LDS",
    "top1": "top-1 drop", "top3": "top-3 drop",
}  # fmt: skip
NOTE = """A document's score is the sum of its tokens'. *Right words*: those of the answer that SQuAD has; answers that
have them often go on with a sentence of another document, and then come from both. *LDS* [ContextCite]: rank
correlation of the kept documents' scores, summed, with the logit of the answer's probability, over random subsets of
documents. *Top-k drop*: log-probability that the answer loses without the k documents of highest score. `nearest`
knows only where a document stands. A dash: not measured of that method; `--methods … --again words` adds it."""
HELD = 64
"""Subsets for LDS: all of them, where there are no more."""
BASE = "exact"
QUICK_CASES, QUICK_DOCUMENTS, QUICK_HELD = 1, 8, 8


class Answered(NamedTuple):
    """A question that the model answered right."""

    question: Question
    answer: str
    case: Case

    @property
    def words(self) -> range:
        """The tokens that the right words are in."""
        pieces = self.case.reader.model.pieces_written(self.case.example)
        return tokens_reading(spelled(self.question.answer, "".join(pieces)), pieces)


def measured(name: str, reader: Reader, data: Path, methods: tuple[str, ...], count: int) -> dict[str, Any]:
    """Every measure of every method on the first `count` questions that are answered right, case by case."""
    made: dict[str, dict[str, list[float]]] = {method: {} for method in methods}
    asked: list[dict[str, Any]] = []
    lost: dict[str, str] = {}
    documents = min(DOCUMENTS[name], QUICK_DOCUMENTS) if reader.quick else DOCUMENTS[name]
    seen, subsets, begin = 0, 0, time.perf_counter()
    every = questions(data, documents, short=reader.quick)
    right = lambda question, answer: says(answer, question.answer)
    for question, likely in answered(reader, every, lambda question: _prompt(question).text, right):
        seen += 1
        found = case_of(reader, question, len(asked)) if likely else None
        if found is None:
            continue
        held = _held(found.case, QUICK_HELD if reader.quick else HELD)
        subsets = len(held)
        for method in methods:
            if method not in lost:
                try:
                    _add(made[method], judge(found, method, held))
                except torch.OutOfMemoryError:
                    lost[method] = f"out of memory at {found.case.example.count} tokens"
        asked.append(_told(found))
        spent = (time.perf_counter() - begin) / len(asked)
        print(f"{name}: {len(asked)} of {count} ({seen} seen), {spent:.0f} s a case", flush=True)
        if len(asked) >= count or reader.late:
            break
    left = [method for method in methods if method not in lost]
    return {
        "name": name, "model": reader.name, "seen": seen, "cases": len(asked), "asked": asked, "lost": lost,
        "documents": documents, "subsets": subsets, "made": {method: made[method] for method in left},
        "cost": {m: cost(made[m]["seconds"], [row["forward"] for row in asked]) for m in left},
    }  # fmt: skip


def again(
    found: dict[str, Any], reader: Reader, data: Path, methods: tuple[str, ...], wanted: Collection[str]
) -> dict[str, Any]:
    """What was found, with more measures or more methods on the same answers."""
    known = {question.id: question for question in islice(questions(data, found["documents"]), found["seen"])}
    more: dict[str, dict[str, list[float]]] = {method: {} for method in methods}
    forward, begin = [], time.perf_counter()
    for n, row in enumerate(found["asked"]):
        one = case_of(reader, known[row["id"]], n, row["answer"])
        if one is None:
            raise ValueError(f"the result file has an answer without the right words: {row['id']}")
        forward.append(one.case.forward)
        for method in methods:
            _add(more[method], judge(one, method, _held(one.case, HELD), wanted))
        print(f"{found['name']}: {n + 1} of {found['cases']}, {(time.perf_counter() - begin) / (n + 1):.0f} s a case")
    made = {**found["made"], **{method: {**found["made"].get(method, {}), **more[method]} for method in methods}}
    costs = {m: cost(values["seconds"], forward) for m, values in more.items() if "seconds" in values}
    return {**found, "made": made, "cost": {**found["cost"], **costs}}


def _add(made: dict[str, list[float]], values: dict[str, float]) -> None:
    for key, value in values.items():
        made.setdefault(key, []).append(value)


def is_first(scores: np.ndarray, right: int) -> float:
    """1 where the right one has the highest score; shared, where several have it."""
    best = scores == scores.max()
    return float(best[right] / best.sum())


def _prompt(question: Question) -> Prompt:
    return Prompt(question.text, question.documents, TASK)


def case_of(reader: Reader, question: Question, number: int, answer: str | None = None) -> Answered | None:
    """The model's answer to a question, or the one that it gave before, where that has the right words in it."""
    prompt = _prompt(question)
    example = prompt.encoded(reader.model, answer, ANSWER)
    answer = answer or reader.model.read(example.written)
    if not says(answer, question.answer):
        return None
    return Answered(question, answer, Case(reader, prompt, example, document_blocks(prompt), number))


def _held(case: Case, many: int) -> np.ndarray:
    sources = len(case.pieces)
    return every_subset(sources) if 2**sources <= many else case.held_apart(many)


def judge(
    found: Answered, method: str, held: np.ndarray, wanted: Collection[str] = tuple(MEASURES)
) -> dict[str, float]:
    """The wanted measures of a method on a case."""
    case, made = found.case, {}
    if "words" in wanted:
        made["words"] = is_first(case.scores(method, found.words)[0], found.question.right)
    if set(wanted) <= {"words"}:
        return made
    scores, made["seconds"] = case.scores(method)
    whole, *less = case.log_p(np.stack([case.everything, top_drop(scores, 1), top_drop(scores, 3)]))
    made["first"] = is_first(scores, found.question.right)
    made["lds"] = lds(scores, held, case.log_p(held))
    made["top1"], made["top3"] = (float(whole - value) for value in less)
    return made


def _told(found: Answered) -> dict[str, Any]:
    """What is known of a case apart from the methods."""
    question, case = found.question, found.case
    whole, alone = case.log_p(np.stack([case.everything, ~case.everything]))
    return {
        "id": question.id, "answer": found.answer, "right": question.right, "near": list(question.near),
        "tokens": case.example.count, "written": len(case.whole), "forward": case.forward,
        "log_p": float(whole), "log_p_without_documents": float(alone),
    }  # fmt: skip


# -- the page -----------------------------------------------------------------------------------------------------


def section(found: dict[str, Any]) -> str:
    """A table of the page."""
    lines = [
        f"### Sources: the right paragraph among {found['documents']}, near-duplicates among them",
        "",
        f"{found['model']}, {found['cases']} answers with the right words in them of the first "
        f"{found['seen']} questions; prompts of {_mean(found, 'tokens'):.0f} tokens.{_remark(found)}",
        "",
        NOTE,
        "",
        f"| method | {' | '.join(MEASURES.values())} | LDS against `{BASE}`, paired | cost, forward passes |",
        f"| --- | {' | '.join('---' for _ in MEASURES)} | --- | ---: |",
        *_rows(found),
        *(f"\n`{method}` is not in the table: {why}." for method, why in found["lost"].items()),
    ]
    return "\n".join([*lines, ""])


def _rows(found: dict[str, Any]) -> Iterator[str]:
    if not found["cases"]:
        return
    for method, values, against in ranked(found["made"], "lds", BASE):
        cells = [shown(interval(values[key])) if key in values else "–" for key in MEASURES]
        spent = f"{found['cost'][method]:.1f}" if method in found["cost"] else "–"
        yield f"| `{method}` | {' | '.join(cells)} | {against} | {spent} |"


def _mean(found: dict[str, Any], key: str) -> float:
    return float(np.mean([row[key] for row in found["asked"]])) if found["asked"] else float("nan")


def _remark(found: dict[str, Any]) -> str:
    if found["subsets"] != 2 ** found["documents"]:
        return f" LDS is over {found['subsets']} subsets."
    return (
        f" Of {found['documents']} documents there are {found['subsets']} subsets: LDS is over all of them, and "
        "ContextCite draws from the same ones. A subset that is drawn twice is run once and costs twice."
    )
