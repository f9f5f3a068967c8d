"""Concept activation vectors: the normal of the plane between a concept and its counterpart."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whence.errors import InputError, MissingExtraError

__all__ = ["CAV", "Space", "learner", "tcav_score"]

CHUNK = 16384
"""Features that are handled at a time: a flattened layer of a large image model has 150,000."""


class CAV(NamedTuple):
    """A plane in the coordinates of a `Space`: `coordinates @ weights + offset > 0` on the side of the concept.

    Its normal in the space of the activations has length 1.
    """

    weights: np.ndarray
    offset: float


class Space:
    """The activations of a layer for all inputs, in as many dimensions as there are inputs.

    Features are standardised, z = (a - μ)/σ (σ one number for all with `standardise=False`), once for all runs and
    without a look at labels. The penalty of logistic regression keeps its weights in the span of the examples, so
    fitting in coordinates of that span is exact, and quick whatever the number of features:

    Z Zᵀ = U Λ Uᵀ,   coordinates U√Λ,   w = Zᵀ U Λ^(-½) c   for weights c in these coordinates
    """

    def __init__(self, activations: np.ndarray, *, standardise: bool = True):
        self._activations = activations
        self._scale = _scale(activations, standardise)
        count = len(activations)
        gram, metric = np.zeros((count, count)), np.zeros((count, count))
        for part in self._parts():
            z = self._standardised(part)
            gram += z @ z.T
            metric += (z / self._scale[part]) @ (z / self._scale[part]).T
        values, vectors = np.linalg.eigh(gram)
        kept = values > 1e-10 * max(float(values.max()), 1e-300)
        if not kept.any():
            raise InputError("all inputs have the same activations here: the concept can't be told from others")
        self._to_inputs = vectors[:, kept] / np.sqrt(values[kept])
        self.coordinates = vectors[:, kept] * np.sqrt(values[kept])
        """(input, coordinate)"""
        self._metric = self._to_inputs.T @ metric @ self._to_inputs

    def fit(self, concept: np.ndarray, counter: np.ndarray) -> CAV:
        """The CAV of the inputs `concept` against the inputs `counter` (numbers of rows) [Kim et al. 2018, §3.2].

        min_w ½|w|² + Σ_i log(1 + exp(-y_i (w·z_i + b))),   v = (w/σ) / |w/σ|

        The plane w·(a - μ)/σ + b = 0 has the normal w/σ in the space of the activations, and that is where derivatives
        are taken.
        """
        if not (len(concept) and len(counter)):
            raise InputError("a concept vector needs examples on both sides: the concept's and others")
        rows = np.concatenate([concept, counter])
        labels = np.repeat([1, 0], [len(concept), len(counter)])
        regression = learner()(solver="newton-cholesky", max_iter=200)
        with _unchecked():
            model = regression.fit(self.coordinates[rows], labels)
        weights = model.coef_[0]
        length = float(np.sqrt(max(weights @ self._metric @ weights, 0.0)))
        if length < 1e-12:
            raise InputError("concept and counterpart have the same activations here: they can't be told apart")
        return CAV(weights / length, float(model.intercept_[0]) / length)

    def accuracy(self, cav: CAV, concept: np.ndarray, counter: np.ndarray) -> float:
        """Balanced accuracy on the inputs `concept` and `counter`; 0.5 is chance."""
        return float((self._says_concept(cav, concept).mean() + 1 - self._says_concept(cav, counter).mean()) / 2)

    def cross_validated(self, concept: np.ndarray, counter: np.ndarray, *, folds: int, seed: int) -> float:
        """Balanced accuracy on inputs that the CAV was not fitted to, over `folds` splits."""
        rng = np.random.default_rng(seed)
        folds = min(folds, len(concept), len(counter))
        ours, theirs = (rng.permutation(np.arange(len(side)) % folds) for side in (concept, counter))
        found = [
            self.accuracy(self.fit(concept[ours != n], counter[theirs != n]), concept[ours == n], counter[theirs == n])
            for n in range(folds)
        ]
        return float(np.mean(found))

    def answers(self, gradients: np.ndarray) -> np.ndarray:
        """Gradients (example, feature) in the coordinates of CAVs: `answers @ cav.weights` is ∇s(x) · v, eq. 1."""
        found = np.zeros((len(gradients), len(self._activations)))
        for part in self._parts():
            found += (gradients[:, part].astype(np.float64) / self._scale[part]) @ self._standardised(part).T
        return np.asarray(found @ self._to_inputs)

    def direction(self, cav: CAV) -> np.ndarray:
        """v, in the space of the activations."""
        shares = self._to_inputs @ cav.weights
        return np.concatenate([shares @ self._standardised(p) / self._scale[p] for p in self._parts()])

    def _says_concept(self, cav: CAV, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.coordinates[rows] @ cav.weights + cav.offset > 0)

    def _parts(self) -> list[slice]:
        return [slice(n, n + CHUNK) for n in range(0, self._activations.shape[1], CHUNK)]

    def _standardised(self, part: slice) -> np.ndarray:
        values = self._activations[:, part].astype(np.float64)
        return np.asarray((values - values.mean(0)) / self._scale[part])


def learner() -> Any:
    """scikit-learn's logistic regression, or an error that says how to get it; asked for before long work begins."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtraError("scikit-learn", "concepts", "TCAV") from None
    return LogisticRegression


def _unchecked() -> Any:
    """scikit-learn without its checks of arguments, which take longer than the fit itself; for this thread alone."""
    import sklearn

    return sklearn.config_context(assume_finite=True, skip_parameter_validation=True)


def tcav_score(derivatives: np.ndarray) -> float:
    """Share of examples with ∇s(x) · v > 0 [Kim et al. 2018, eq. 2]."""
    return float((derivatives > 0).mean())


def _scale(activations: np.ndarray, standardise: bool) -> np.ndarray:
    spread = activations.std(0, dtype=np.float64)
    if not standardise:  # the weight of the penalty should not depend on the units of the layer
        return np.full(activations.shape[1], float(spread.mean()) or 1.0)
    # A feature that is constant up to rounding says nothing; dividing by its noise would make it say everything.
    tiny = 1e-6 * max(float(spread.max()), float(np.abs(activations).max()), 1e-30)
    return np.where(spread > tiny, spread, np.inf)
