"""Relevance passed on through a model's own text, one token and one hop at a time, in float64."""

from __future__ import annotations

import numpy as np


def passed_on(rows: np.ndarray, scores: np.ndarray, span: range, prompt: int, hops: int) -> tuple[np.ndarray, float]:
    """Relevance of the prompt and of what was written, and what went into sinks, after so many hops.

    `rows[w, i]` is the relevance of token i for written token w; `scores[w]` what w is explained by.
    """
    total, sunk = np.zeros(rows.shape[1]), 0.0
    moving = np.zeros(rows.shape[1])
    for w in span:
        moving += rows[w]
        sunk += scores[w] - rows[w].sum()
    for _ in range(hops):
        arrived = np.zeros_like(moving)
        for i in range(len(moving)):
            w = i - prompt  # which written token this is
            if w < 0 or scores[w] == 0:
                total[i] += moving[i]
                continue
            weight = min(max(moving[i] / scores[w], -1.0), 1.0)
            total[i] += moving[i] - weight * scores[w]
            arrived += weight * rows[w]
            sunk += weight * (scores[w] - rows[w].sum())
        moving = arrived
    return total + moving, sunk
