"""TCAV as the paper writes it (Kim et al. 2018), in float64 and without any trick."""

from __future__ import annotations

import math

import numpy as np


def logistic_plane(concept: np.ndarray, counter: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """min_w,b ½|w|² + Σ_i log(1 + exp(-y_i (w·z_i + b))) by Newton's method in all features; returns w."""
    z = (np.concatenate([concept, counter]).astype(np.float64) - mean) / scale
    y = np.repeat([1.0, 0.0], [len(concept), len(counter)])
    x = np.concatenate([z, np.ones((len(z), 1))], axis=1)
    penalty = np.diag([1.0] * z.shape[1] + [0.0])
    w = np.zeros(x.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-x @ w))
        gradient = x.T @ (p - y) + penalty @ w
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + penalty
        w = w - np.linalg.solve(hessian, gradient)
    return w[:-1]


def cav(concept: np.ndarray, counter: np.ndarray, everything: np.ndarray) -> np.ndarray:
    """The plane's normal in the space of the activations, of length 1."""
    mean, scale = everything.astype(np.float64).mean(0), everything.astype(np.float64).std(0)
    normal = logistic_plane(concept, counter, mean, scale) / scale
    return normal / math.sqrt(sum(v * v for v in normal))


def derivative(score, activation: np.ndarray, direction: np.ndarray, step: float = 1e-5) -> float:
    """Eq. 1: lim (s(a + εv) - s(a)) / ε, with a central difference."""
    return (score(activation + step * direction) - score(activation - step * direction)) / (2 * step)


def tcav(derivatives: list[float]) -> float:
    """Eq. 2: the share that is positive."""
    return sum(1 for d in derivatives if d > 0) / len(derivatives)


def welch(a: list[float], b: list[float]) -> tuple[float, float]:
    """t and its degrees of freedom (Welch 1947)."""
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    var_a = sum((x - mean_a) ** 2 for x in a) / (len(a) - 1)
    var_b = sum((x - mean_b) ** 2 for x in b) / (len(b) - 1)
    share_a, share_b = var_a / len(a), var_b / len(b)
    t = (mean_a - mean_b) / math.sqrt(share_a + share_b)
    freedom = (share_a + share_b) ** 2 / (share_a**2 / (len(a) - 1) + share_b**2 / (len(b) - 1))
    return t, freedom
