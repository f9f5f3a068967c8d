"""Needles and variables, in the manner of RULER [Hsieh et al. 2024]: do explanations find the lines that decide?

Texts are made up (`training/tracking.py`), and a small Llama of ours has learnt to answer questions about them
(`training/train_tracking.py`), so that it is known which lines decide: the needle, or the lines of the chain up to the
variable. Counted are questions that the model answers itself without a mistake. What is explained is the answer alone;
where steps are written out before it, relevance may be passed on through them (hops).

*Recovery@k*: of the k words that decide, names, variables and values, the share among the k strongest words of the
text; of the k lines that decide, the share among the k strongest lines, a line counting the sum of its words. Equal
scores share their places. FlashTrace takes the strongest tenth of a prompt instead. The question is no evidence and
does not take part.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.language import flashtrace
from benchmarks.language.asking import METHODS, Reader, cost, interval, method_of, ranked, shown
from training import tracking
from whence.methods.explaining import as_method
from whence.methods.hopping import hopped
from whence.models.example import Example
from whence.models.word_targets import Span
from whence.results.hops import Hops

__all__ = [
    "METHODS",
    "QUICK_CASES",
    "QUICK_METHODS",
    "TITLES",
    "Tracked",
    "hits",
    "knows",
    "measured",
    "positive_share",
    "section",
    "tracked",
]

QUICK_METHODS, QUICK_CASES = METHODS, 3
SEED = 20_000_003
"""Of texts that neither training nor its test made."""
DRAWN = 50
"""Texts at a time."""
PATIENCE = 20
"""Questions that are asked at most for each that is wanted."""
KINDS = {"needle": "needle", "variables": "direct", "variables-steps": "steps"}
TITLES = {
    "needle": "Needles: the code of a name among other codes, variables and filler; evidence is one line",
    "variables": "Variables, answered directly: the chain of lines that leads to a value; evidence is those lines",
    "variables-steps": "Variables, step by step: the same with the chain written out before the answer",
}
HOPPED = ("exact", "attn_lrp")
FLASHTRACE = ("flashtrace", "flashtrace predicting")
"""At the answer's own tokens, as published; and at those that predict them, where ours are explained."""


class Tracked(NamedTuple):
    """A question with its answer, and what is known of every token."""

    example: Example
    lines: np.ndarray
    """The line of the text that each token is in, −1 outside of all."""
    evidence: np.ndarray
    """Tokens in lines that decide."""
    deciding: np.ndarray
    """Names, variables and values among them."""


def knows(reader: Reader) -> bool:
    """Whether a model is one of `training/train_tracking.py`."""
    return bool(reader.model.tokenizer.get_vocab() == tracking.NUMBER)


def tracked(reader: Reader, case: tracking.Case) -> Tracked:
    """A question as the model reads it: every word is a token, behind <s>."""
    (example,), _ = reader.model.encode(case.prompt, continuation=" " + " ".join(case.answer))
    behind = example.count - 1 - len(case.context)

    def spread(values: list[Any], else_: Any) -> np.ndarray:
        return np.array([else_, *values, *[else_] * behind])

    return Tracked(example, spread(case.lines, -1), spread(case.holds(), False), spread(case.decides(), False))


def drawn(kind: str) -> Iterator[tracking.Case]:
    """Questions without end, always the same ones."""
    generator = torch.Generator().manual_seed(SEED)
    while True:
        contexts = tracking.make(DRAWN, generator)
        asked = tracking.ask(kind, contexts, 1, generator)
        yield from (tracking.case(contexts, asked, n) for n in range(DRAWN))


# -- measures ----------------------------------------------------------------------------------------------------------


def hits(scores: np.ndarray, wanted: np.ndarray, many: int) -> float:
    """How many of the wanted are among the `many` strongest. Those that share the last score share what is left."""
    last = np.sort(scores)[::-1][many - 1]
    above, level = scores > last, scores == last
    return float(wanted[above].sum() + (many - above.sum()) * wanted[level].mean())


def of_lines(scores: np.ndarray, lines: np.ndarray, evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums over the words of every line, and which of the lines decide."""
    known = [n for n in np.unique(lines) if n >= 0]
    return np.array([scores[lines == n].sum() for n in known]), np.array([evidence[lines == n].all() for n in known])


def positive_share(scores: np.ndarray, evidence: np.ndarray) -> float:
    """The share of positive relevance in the evidence."""
    positive = np.clip(scores, 0, None)
    return float(positive[evidence].sum() / max(positive.sum(), 1e-12))


def judged(scores: np.ndarray, asked: Tracked) -> dict[str, float]:
    inside = asked.lines >= 0
    scores, evidence, deciding = scores[inside].astype(np.float64), asked.evidence[inside], asked.deciding[inside]
    by_line, right = of_lines(scores, asked.lines[inside], evidence)
    return {
        "words": hits(scores, deciding, deciding.sum()) / deciding.sum(),
        "lines": hits(by_line, right, right.sum()) / right.sum(),
        "top": hits(scores, evidence, 1),
        "share": positive_share(scores, evidence),
    }


# -- explanations ------------------------------------------------------------------------------------------------------


def rows_of(name: str, methods: tuple[str, ...]) -> list[str]:
    """The rows of a table: methods, with and without hops where there are steps to go through."""
    made = [*methods, *FLASHTRACE]
    if KINDS[name] == "steps":
        made += [f"{method} hops={hops}" for method in HOPPED if method in methods for hops in (1, "all")]
        made += [f"{method} hops={hops}" for method in FLASHTRACE for hops in (1, tracking.DEEP)]
    return made


def explained(reader: Reader, row: str, example: Example) -> np.ndarray:
    """The explanation of the answer, the last of the written words, one number for each token."""
    method, _, told = row.partition(" hops=")
    hops: Hops = "all" if told == "all" else int(told or 0)
    if method in FLASHTRACE:
        return _flashtraced(reader, example, int(hops), method != "flashtrace")
    if hops:
        return hopped(reader.model, as_method(method_of(method)), example, Span(-1), hops).scores
    return reader.scores(method, example, Span(-1))


def _flashtraced(reader: Reader, example: Example, hops: int, predicting: bool) -> np.ndarray:
    ids = torch.tensor([*example.inputs["input_ids"].tolist(), example.written[-1]], device=reader.model.device)
    prompt, last = len(ids) - len(example.written), len(ids) - 1
    layers = flashtrace.layers_of(reader.model.module, ids)
    found = flashtrace.recursive(layers, prompt, range(prompt, last), range(last, last + 1), hops, int(predicting))
    return found[:-1].float().cpu().numpy()


# -- the table ---------------------------------------------------------------------------------------------------------


def measured(name: str, reader: Reader, data: Path | None, methods: tuple[str, ...], count: int) -> dict[str, Any]:
    """Every row's measures on the first `count` questions that the model answers without a mistake."""
    if not knows(reader):
        raise SystemExit(f"{name} wants a model of training/train_tracking.py, not {reader.model.name}")
    rows = rows_of(name, methods)
    made: dict[str, dict[str, list[float]]] = {row: {"words": [], "lines": [], "top": [], "share": []} for row in rows}
    seconds: dict[str, list[float]] = {row: [] for row in rows}
    seen, forward, depths = 0, [], []
    for case in drawn(KINDS[name]):
        if len(forward) == count or seen == PATIENCE * count or reader.late:
            break
        seen += 1
        asked = tracked(reader, case)
        if not reader.is_right(asked.example):
            continue
        forward.append(reader.forward_seconds(asked.example, 2))
        depths.append(len(case.evidence))
        for row in rows:
            begin = time.perf_counter()
            scores = explained(reader, row, asked.example)
            seconds[row].append(time.perf_counter() - begin)
            for measure, value in judged(scores, asked).items():
                made[row][measure].append(value)
    if not forward:
        raise SystemExit(f"{name}: {reader.model.name} answers none of {seen} questions: train it for longer")
    costs = {row: cost(seconds[row], forward) for row in rows}
    return {
        "name": name, "model": reader.name, "seen": seen, "cases": len(forward), "depths": depths, "made": made,
        "cost": costs,
    }  # fmt: skip


def section(found: dict[str, Any]) -> str:
    """A table of the page."""
    made = found["made"]
    base = next((row for row in ("exact hops=all", "exact") if row in made), None)
    lines = [
        f"### {TITLES[found['name']]}",
        "",
        f"{found['model']}, {found['cases']} questions that it answers of the first {found['seen']}, with "
        f"{np.mean(found['depths']):.1f} lines that decide on average. The answer alone is explained, and words of the "
        "question do not take part. *Recovery@k*: of the k words (lines) that decide, the share among the k strongest. "
        "`flashtrace` is FlashTrace [arXiv 2602.01914], written anew, at the answer's own tokens as published, "
        "and `predicting` at those that predict them.",
        "",
        f"| method | Recovery@k, words | against `{base}`, paired | Recovery@k, lines | "
        "strongest word in the evidence | positive relevance in it | cost, forward passes |",
        "| --- | --- | --- | --- | --- | --- | ---: |",
    ]
    for row, values, against in ranked(made, "words", base):
        words, by_line, top, share = (shown(interval(values[key])) for key in ("words", "lines", "top", "share"))
        lines.append(f"| `{row}` | {words} | {against} | {by_line} | {top} | {share} | {found['cost'][row]:.1f} |")
    return "\n".join([*lines, ""])
