"""ContextCite [Cohen-Wang 2024, arXiv 2409.00729]: a linear model of what an answer's likelihood is on parts of its
sources, and the measures that were proposed with it.

As in its authors' code: sources are kept with probability ½, the linear model is a Lasso (α = 0.01) over standardised
masks, and what it fits is the logit of the answer's probability over the number of the answer's tokens.
"""

from __future__ import annotations

import numpy as np

__all__ = ["every_subset", "lds", "logit", "subsets", "surrogate", "top_drop"]

ALPHA = 0.01
SURE = -1e-7
"""A log-probability of 0 has no logit; float32 can't tell this one from it."""


def subsets(rng: np.random.Generator, many: int, sources: int) -> np.ndarray:
    """Masks of kept sources, each kept with probability ½: (many, sources)."""
    return rng.random((many, sources)) < 0.5


def every_subset(sources: int) -> np.ndarray:
    """All masks: (2^sources, sources)."""
    return (np.arange(2**sources)[:, None] >> np.arange(sources)) % 2 == 1


def logit(log_p: np.ndarray) -> np.ndarray:
    """log p/(1−p) from log p: log p − log(1 − e^{log p}), without ever computing p, which may be 1e-60."""
    held = np.minimum(np.asarray(log_p, dtype=np.float64), SURE)
    return held - np.log(-np.expm1(held))


def surrogate(kept: np.ndarray, log_p: np.ndarray, tokens: int, alpha: float = ALPHA) -> np.ndarray:
    """Weights w of ŷ = w·kept + b with min (1/2n) ‖y − ŷ‖² + α ‖w·σ‖₁, y the logit of a token: scores of the sources.

    σ are the masks' standard deviations. Weights are given back as of the whole answer, `tokens` times those of y.
    """
    from sklearn.linear_model import Lasso

    masks = np.asarray(kept, dtype=np.float64)
    spread = masks.std(0)
    spread[spread == 0] = 1.0  # always or never kept: the column is constant, and its weight 0
    fitted = Lasso(alpha=alpha, max_iter=10_000).fit((masks - masks.mean(0)) / spread, logit(log_p) / tokens)
    return np.asarray(fitted.coef_ / spread * tokens)


def lds(scores: np.ndarray, kept: np.ndarray, log_p: np.ndarray) -> float:
    """Spearman's correlation of Σ scores of kept sources and the true logit, over subsets; 0 where one is constant."""
    from scipy.stats import rankdata

    predicted, true = np.asarray(kept, dtype=np.float64) @ scores, logit(log_p)
    predicted = np.round(predicted, 9)  # sums of the same numbers in another order are ties
    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (predicted, true))
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm > 0 else 0.0


def top_drop(scores: np.ndarray, k: int) -> np.ndarray:
    """The mask without the k sources of highest score. What log p loses with it is the top-k drop."""
    kept = np.ones(len(scores), dtype=bool)
    kept[np.argsort(-scores, kind="stable")[:k]] = False
    return kept
