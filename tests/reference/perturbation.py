"""Slow, obvious versions of perturbation and path methods, from their formulas, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

__all__ = ["integrated_gradients", "occlusion", "owen", "saliency", "shapley"]

Value = Callable[[frozenset[int]], float]


def shapley(value: Value, players: int) -> np.ndarray:
    """φ_i = Σ_S |S|! (n − |S| − 1)! / n! · (v(S ∪ i) − v(S)), by enumeration of every S."""
    scores = np.zeros(players)
    for i in range(players):
        others = [j for j in range(players) if j != i]
        for size in range(players):
            weight = math.factorial(size) * math.factorial(players - size - 1) / math.factorial(players)
            for chosen in itertools.combinations(others, size):
                scores[i] += weight * (value(frozenset(chosen) | {i}) - value(frozenset(chosen)))
    return scores


def owen(value: Value, tree: object, beside: frozenset[int] = frozenset()) -> dict[int, float]:
    """Owen values on a tree of pairs, ((0, 1), 2): at every split, each side alone and beside the other, half each."""
    if isinstance(tree, int):
        return {tree: value(beside | {tree}) - value(beside)}
    left, right = tree  # type: ignore[misc]
    scores: dict[int, float] = {}
    for one, other in ((left, right), (right, left)):
        for context in (beside, beside | leaves(other)):
            for player, score in owen(value, one, context).items():
                scores[player] = scores.get(player, 0.0) + score / 2
    return scores


def leaves(tree: object) -> frozenset[int]:
    return frozenset({tree}) if isinstance(tree, int) else leaves(tree[0]) | leaves(tree[1])  # type: ignore[index]


def occlusion(value: Value, players: int) -> np.ndarray:
    """f(x) − f(x without i)."""
    everyone = frozenset(range(players))
    return np.array([value(everyone) - value(everyone - {i}) for i in range(players)])


def gradient(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(f(x), x)[0]


def saliency(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The norm of the gradient over the last axis."""
    return gradient(f, x).norm(dim=-1)


def integrated_gradients(f: Callable[[Tensor], Tensor], x: Tensor, b: Tensor, alphas: list[float]) -> Tensor:
    """Σ_d (x − b) times the mean of the gradient at b + α (x − b), point by point."""
    mean = sum(gradient(f, b + a * (x - b)) for a in alphas) / len(alphas)
    return ((x - b) * mean).sum(-1)
