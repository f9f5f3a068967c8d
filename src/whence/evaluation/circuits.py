"""How good is a circuit, or a ranking of places from which circuits are made   [MIB, Mueller et al. 2025].

m(C) is the score of a model in which all places outside of the circuit C have the values of the corrupt run:

    faithfulness   f(C) = (m(C) − m(∅)) / (m(all) − m(∅))
    CPR            ∫ f(C_k) dk          the circuit performance ratio; higher is better
    CMD            ∫ |1 − f(C_k)| dk    the circuit-model distance; 0 is perfect

with C_k the share k of the places that rank highest. Where the circuit is known, `auroc` compares ranking and circuit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whence.errors import InputError

__all__ = ["SHARES", "auroc", "circuit_of", "cmd", "cpr", "faithfulness"]

SHARES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Sizes of circuits, as shares of all places."""


def circuit_of(scores: np.ndarray, share: float) -> np.ndarray:
    """The share of places with the highest scores: True for those. Unknown ones (NaN) are none.

    >>> circuit_of(np.array([[3.0, 1.0], [np.nan, 2.0]]), 2 / 3)
    array([[ True, False],
           [False,  True]])
    """
    flat = np.asarray(scores, dtype=np.float64).reshape(-1)
    known = np.isfinite(flat)
    order = np.argsort(np.where(known, -flat, np.inf), kind="stable")
    chosen = np.zeros(flat.shape, dtype=bool)
    chosen[order[: round(share * int(known.sum()))]] = True
    return chosen.reshape(np.shape(scores))


def faithfulness(score: float, nothing: float, everything: float) -> float:
    """How much of what the whole model does a circuit does: 0 for the empty one, 1 for the model.

    >>> faithfulness(2.0, -1.0, 3.0)
    0.75
    """
    if everything == nothing:
        raise InputError("the clean and the corrupt run have the same score: there is nothing for a circuit to explain")
    return (score - nothing) / (everything - nothing)


def cpr(shares: Sequence[float], found: Sequence[float]) -> float:
    """The area under faithfulness over the size of the circuit.

    >>> cpr([0.0, 0.5, 1.0], [0.0, 1.0, 1.0])
    0.75
    """
    return _area(shares, np.asarray(found, dtype=np.float64))


def cmd(shares: Sequence[float], found: Sequence[float]) -> float:
    """The area between faithfulness and 1.

    >>> cmd([0.0, 0.5, 1.0], [0.0, 1.5, 1.0])
    0.5
    """
    return _area(shares, np.abs(1 - np.asarray(found, dtype=np.float64)))


def _area(shares: Sequence[float], heights: np.ndarray) -> float:
    """By trapezoids, over the range of shares, made one wide."""
    x = np.asarray(shares, dtype=np.float64)
    if len(x) != len(heights) or len(x) < 2 or (np.diff(x) <= 0).any():
        raise InputError("sizes of circuits rise, there are two at least, and each has its faithfulness")
    return float(((heights[1:] + heights[:-1]) / 2 * np.diff(x)).sum() / (x[-1] - x[0]))


def auroc(scores: np.ndarray, planted: np.ndarray) -> float:
    """How probable it is that a place of the circuit scores higher than one outside; ties count half.

    >>> auroc(np.array([0.9, 0.2, 0.5]), np.array([True, False, False]))
    1.0
    """
    values, inside = np.asarray(scores, dtype=np.float64).reshape(-1), np.asarray(planted, dtype=bool).reshape(-1)
    known = np.isfinite(values)
    yes, no = values[known & inside], values[known & ~inside]
    if not len(yes) or not len(no):
        raise InputError("there must be places inside of the circuit and outside of it")
    higher = (yes[:, None] > no[None]).sum() + 0.5 * (yes[:, None] == no[None]).sum()
    return float(higher / (len(yes) * len(no)))
