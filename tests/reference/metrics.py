"""Metrics as plain loops, one input at a time, written from the papers.

`probability(keep)` and `logits(keep)` run the model on the input with only the features of the set `keep` in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

FRACTIONS = [n / 10 for n in range(11)]
Run = Callable[[set[int]], float]


def _ceil(fraction: float, total: int) -> int:
    """Exact for tenths and hundredths: 0.3 · 10 is 3."""
    return -(-round(fraction * 100) * total // 100)


def trapezoid(x: Sequence[float], y: Sequence[float]) -> float:
    return sum((x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2 for i in range(len(x) - 1))


def auac(relevance: dict[int, float], probability: Run) -> float:
    order = sorted(relevance, key=lambda i: (-relevance[i], i))
    curve = [probability(set(order[: _ceil(f, len(order))])) for f in FRACTIONS]
    return trapezoid(FRACTIONS, curve)


def au_mse(relevance: dict[int, float], logits: Callable[[set[int]], Sequence[float]]) -> float:
    order = sorted(relevance, key=lambda i: (abs(relevance[i]), i))
    original, curve = logits(set(order)), []
    for f in FRACTIONS:
        changed = logits(set(order[_ceil(f, len(order)) :]))
        curve.append(sum((a - b) ** 2 for a, b in zip(original, changed, strict=True)))
    return trapezoid(FRACTIONS, curve)


def aopc(relevance: dict[int, float], probability: Run) -> float:
    order = sorted(relevance, key=lambda i: (-relevance[i], i))
    full = probability(set(order))
    drops = [full - probability(set(order[_ceil(f, len(order)) :])) for f in FRACTIONS]
    return sum(drops) / len(drops)


def comprehensiveness(relevance: dict[int, float], probability: Run, *, keep: bool = False) -> float:
    """With `keep`, sufficiency: the top features alone."""
    order = sorted(relevance, key=lambda i: (-relevance[i], i))
    full, drops = probability(set(order)), []
    for f in (0.01, 0.05, 0.1, 0.2, 0.5):
        n = _ceil(f, len(order))
        drops.append(full - probability(set(order[:n] if keep else order[n:])))
    return sum(drops) / len(drops)


def lerf_morf(relevance: dict[int, float], score: Run) -> float:
    most = sorted(relevance, key=lambda i: (-relevance[i], i))
    least = most[::-1]
    curves = [[score(set(order[_ceil(f, len(order)) :])) for f in FRACTIONS] for order in (least, most)]
    return trapezoid(FRACTIONS, curves[0]) - trapezoid(FRACTIONS, curves[1])


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    def rank(values: Sequence[float]) -> list[float]:
        return [sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2 for v in values]

    x, y = rank(a), rank(b)
    mx, my = sum(x) / len(x), sum(y) / len(y)
    top = sum((p - mx) * (q - my) for p, q in zip(x, y, strict=True))
    return top / math.sqrt(sum((p - mx) ** 2 for p in x) * sum((q - my) ** 2 for q in y))


def kendall(a: Sequence[float], b: Sequence[float]) -> float:
    def sign(v: float) -> int:
        return int(v > 0) - int(v < 0)

    pairs = [(i, j) for i in range(len(a)) for j in range(i)]
    x, y = ([sign(v[i] - v[j]) for i, j in pairs] for v in (a, b))
    return sum(p * q for p, q in zip(x, y, strict=True)) / math.sqrt(sum(p * p for p in x) * sum(q * q for q in y))


def average_precision(truth: Sequence[bool], scores: Sequence[float]) -> float:
    """Σ over distinct thresholds of (gain in recall) · precision."""
    total, before = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        taken = [t for t, s in zip(truth, scores, strict=True) if s >= threshold]
        recall = sum(taken) / sum(truth)
        total += (recall - before) * sum(taken) / len(taken)
        before = recall
    return total
