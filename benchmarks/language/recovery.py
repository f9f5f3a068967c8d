"""Disruption and recovery [DePass; DPA, arXiv 2603.19742]: does the answer go when the most relevant tokens go first,
and does it come back when they come back first?

Tokens of the context in descending relevance. *Disruption*: the first k % are blanked; *recovery*: all but the first
k % are. y is the answer's probability, mean over its tokens, teacher-forced; the area of y over k, recovery less
disruption. The end-of-text token is the blank. Counted are answers that need the context: without it their probability
at least halves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language.asking import METHODS, Asked, Reader, cost, interval, ranked, shown

__all__ = ["CASES", "METHODS", "OTHER", "QUICK_CASES", "QUICK_METHODS", "measured", "section"]

SHARES = np.array([0, 2, 5, 10, 20, 40, 60, 80, 100]) / 100
BASE = "exact"
QUICK_METHODS, QUICK_CASES = METHODS, 3


def squad(reader: Reader, rows: list[dict[str, Any]]) -> Iterator[Asked]:
    for row in rows:
        text = f"{row['context']}\n\n{row['question']} Answer with a few words from the text."
        yield reader.asked(text, row["answer"], (0, len(row["context"])), tuple(row["answer_span"]))


def facts(reader: Reader, rows: list[dict[str, Any]]) -> Iterator[Asked]:
    for row in rows:
        begin = row["prompt"].find(row["subject"])
        place = (begin, begin + len(row["subject"])) if begin >= 0 else None
        yield _gone_on(reader, row["prompt"], row["attribute"], place)


def ioi(reader: Reader, rows: list[dict[str, Any]]) -> Iterator[Asked]:
    for row in rows:
        begin = row["prompt"].find(row["answer"])
        yield _gone_on(reader, row["prompt"], row["answer"], (begin, begin + len(row["answer"])))


def _gone_on(reader: Reader, prompt: str, word: str, evidence: tuple[int, int] | None) -> Asked:
    """A text that goes on: no conversation, whatever the model was tuned for."""
    (example,), _ = reader.model.encode(prompt, continuation=f" {word}")
    inside = reader.inside(example, 0, (0, len(prompt)))
    return Asked(example, inside, evidence and reader.inside(example, 0, evidence))


CASES = {"squad": squad, "facts": facts, "ioi": ioi}
FILES = {"squad": "squad_v2.0", "facts": "known_1000", "ioi": "ioi"}
OTHER = "-recipes"
"""Ends the names of tables in which recipes are tried: on prompts from the other end of the file."""
TITLES = {
    "squad": "SQuAD 2.0: answers from a paragraph; evidence is the answer's place in it",
    "facts": "Known facts: what a model remembers; evidence is the subject",
    "ioi": "Indirect objects: the name that was said once; evidence is that name",
}


def _cases(name: str, reader: Reader, data: Path) -> Iterator[Asked]:
    kind = name.removesuffix(OTHER)
    rows = json.loads((data / "attribution_llm" / f"{FILES[kind]}.json").read_text(encoding="utf-8"))
    return CASES[kind](reader, rows if kind == name else rows[::-1])


def measured(name: str, reader: Reader, data: Path, methods: tuple[str, ...], count: int) -> dict[str, Any]:
    """Areas, hits and shares of every method on the first `count` cases that need their context."""
    made: dict[str, dict[str, list[float]]] = {m: {"area": [], "top": [], "share": []} for m in methods}
    seen, forward = 0, []
    for asked in _cases(name, reader, data):
        seen += 1
        everything = np.ones_like(asked.context)
        with_it, without = reader.likely(asked.example, [everything, everything & ~asked.context])
        if not name.startswith("squad") and not reader.is_right(asked.example):
            continue
        if without > with_it / 2:
            continue
        forward.append(reader.forward_seconds(asked.example, 2))
        for method in methods:
            _judge(reader, asked, method, made[method])
        if len(forward) >= count or reader.late:
            break
        if len(forward) % 10 == 0:
            print(f"{name}: {len(forward)} of {count} ({seen} seen)", flush=True)
    costs = {m: cost(reader.seconds[m][-len(forward) :], forward) for m in methods}
    return {"name": name, "model": reader.name, "seen": seen, "cases": len(forward), "made": made, "cost": costs}


def _judge(reader: Reader, asked: Asked, method: str, made: dict[str, list[float]]) -> None:
    scores = reader.scores(method, asked.example)
    inside = np.flatnonzero(asked.context)
    order = inside[np.argsort(-scores[inside], kind="stable")]
    kept = []
    for share in SHARES:
        first = order[: round(share * len(order))]
        gone, back = np.ones_like(asked.context), ~asked.context
        gone[first], back[first] = False, True
        kept += [gone, back]
    likely = reader.likely(asked.example, kept).reshape(-1, 2)
    disruption, recovery = (float(np.trapezoid(likely[:, n], SHARES)) for n in (0, 1))
    made["area"].append(recovery - disruption)
    if asked.evidence is not None:
        held = asked.evidence & asked.context
        positive = np.clip(scores * asked.context, 0, None)
        made["top"].append(float(held[order[0]]))
        made["share"].append(float(positive[held].sum() / max(positive.sum(), 1e-12)))


def section(found: dict[str, Any]) -> str:
    """A table of the page."""
    kind = found["name"].removesuffix(OTHER)
    tried = "" if kind == found["name"] else ": recipes tried, on other prompts than those of the table above"
    lines = [
        f"### {TITLES[kind]}{tried}",
        "",
        f"{found['model']}, {found['cases']} cases of the first {found['seen']}.",
        "",
        f"| method | recovery − disruption | against `{BASE}`, paired | strongest token in the evidence | "
        "positive relevance in it | cost, forward passes |",
        "| --- | --- | --- | --- | --- | ---: |",
    ]
    for method, values, against in ranked(found["made"], "area", BASE):
        area = shown(interval(values["area"]))
        rest = [shown(interval(values[k])) if values[k] else "–" for k in ("top", "share")]
        lines.append(f"| `{method}` | {area} | {against} | {rest[0]} | {rest[1]} | {found['cost'][method]:.1f} |")
    return "\n".join([*lines, ""])
