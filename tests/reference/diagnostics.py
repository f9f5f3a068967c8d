"""Distances, rank correlation and the effect of permutations, written out from the papers in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

__all__ = ["jsd", "kendall_tau_b", "permutation_effects", "softmax", "tvd"]


def tvd(p: Sequence[float], q: Sequence[float]) -> float:
    return 0.5 * sum(abs(a - b) for a, b in zip(p, q, strict=True))


def jsd(p: Sequence[float], q: Sequence[float]) -> float:
    """Jain & Wallace 2019, §4: ½ KL(p ‖ m) + ½ KL(q ‖ m), natural logarithm."""

    def kl(a: Sequence[float], b: Sequence[float]) -> float:
        return sum(x * math.log(x / y) for x, y in zip(a, b, strict=True) if x > 0)

    m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return kl(p, m) / 2 + kl(q, m) / 2


def kendall_tau_b(a: Sequence[float], b: Sequence[float]) -> float:
    """Pair by pair."""
    concordant = discordant = ties_a = ties_b = 0
    for i, j in itertools.combinations(range(len(a)), 2):
        x, y = a[i] - a[j], b[i] - b[j]
        if x == 0 and y == 0:
            continue
        if x == 0:
            ties_a += 1
        elif y == 0:
            ties_b += 1
        elif x * y > 0:
            concordant += 1
        else:
            discordant += 1
    both = concordant + discordant
    return (concordant - discordant) / math.sqrt((both + ties_a) * (both + ties_b))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def permutation_effects(scores: np.ndarray, values: np.ndarray, head: np.ndarray) -> list[float]:
    """TVD of softmax((α V) W) for every permutation of α = softmax(scores): a model of one layer, one row."""
    alpha = softmax(scores)
    before = softmax(alpha @ values @ head)
    return [tvd(softmax(alpha[list(p)] @ values @ head), before) for p in itertools.permutations(range(len(alpha)))]
