"""Do the top words agree with what people marked?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.errors import InputError
from whence.evaluation.cases import Case
from whence.evaluation.metric import AbstractMetric, Need, Task, metrics
from whence.options import Count
from whence.results.measured import Axis, Measurement

__all__ = ["TokenF1", "marked"]


@metrics.register("token_f1")
@dataclass(frozen=True, kw_only=True)
class TokenF1(AbstractMetric):
    """F1 of the k words with the highest scores against the words of a human rationale [DeYoung 2020; Chefer 2021].

    A word's score is the highest of its pieces. F1 = 2 |top ∩ marked| / (k + |marked|), mean over `top`. Words are what
    stands between white space. `top=()` takes as many words as are marked. Higher is better.
    """

    needs: ClassVar[tuple[Need, ...]] = ("rationale",)
    top: tuple[Count, ...] = (10, 20, 30, 40, 50, 60, 70, 80)
    """How many words are taken."""

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        truth = marked(task.case)
        if not truth:
            return {"": Measurement.missing()}
        scores = _words(task)
        order = sorted(scores, key=lambda word: (-scores[word], word))
        curve = [_f1(set(order[:k]), truth) for k in self.top or (len(truth),)]
        return {"": Measurement((float(np.mean(curve)),), curve=tuple(curve) if len(self.top) > 1 else ())}

    def axis(self) -> Axis | None:
        return Axis(tuple(map(float, self.top)), "words taken, most relevant first", "token F1") if self.top else None


def _words(task: Task) -> dict[int, float]:
    ids = task.case.example.parts[0].word_ids
    if not ids:
        raise InputError("token_f1 needs words: the model must come with a fast tokenizer")
    scores: dict[int, float] = {}
    for word, score in zip(ids, task.scores, strict=True):
        if word is not None:
            scores[word] = max(scores.get(word, -np.inf), float(score))
    return scores


def _f1(taken: set[int], truth: set[int]) -> float:
    return 2 * len(taken & truth) / (len(taken) + len(truth))


def marked(case: Case) -> set[int]:
    """Numbers of the marked words: from a mark per word, spans of words (start, stop), or words and phrases."""
    given: Sequence[Any] = [case.rationale] if isinstance(case.rationale, str) else list(case.rationale)
    words = (case.raw if isinstance(case.raw, str) else case.example.text or "").split()
    if not given:
        return set()
    if all(isinstance(g, str) for g in given):
        return {n for phrase in given for n in _found(phrase.split(), words)}
    if all(isinstance(g, (tuple, list)) and len(g) == 2 for g in given):
        return {n for start, stop in given for n in range(int(start), int(stop))}
    if len(given) != len(words):
        raise InputError(f"example {case.index}: {len(given)} marks for {len(words)} words; pass one mark per word")
    return {n for n, mark in enumerate(given) if mark}


def _found(phrase: list[str], words: list[str]) -> list[int]:
    size = len(phrase)
    starts = [n for n in range(len(words) - size + 1) if words[n : n + size] == phrase]
    if not starts:
        raise InputError(f"the rationale {' '.join(phrase)!r} does not stand in the text, word for word")
    return [n + k for n in starts for k in range(size)]
