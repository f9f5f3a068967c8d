"""A pair: which part of one input goes with which part of another, of all that makes them similar."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import InputError
from whence.results import explanation_files as files
from whence.results.conservation import Conservation
from whence.results.explanation import Explanation
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, packed, spelled
from whence.results.units import Units, groups_of

__all__ = ["Pair"]

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Pair(Drawn):
    """Scores of pairs of features, one of each input, for the similarity of the two.

    >>> a = Explanation(np.array([1.0, 0.5]), tokens=("a", "cat"))
    >>> b = Explanation(np.array([1.5]), tokens=("kitten",))
    >>> pair = Pair(np.array([[0.25], [0.75]]), 1.0, "dot", a, b)
    >>> pair.top(1)
    [('cat', 'kitten', 0.75)]
    """

    matrix: np.ndarray
    """A row for each feature of the first input, a column for each of the second."""
    score: float
    """The similarity."""
    measure: str
    """How it is measured: cosine, dot, maxsim."""
    left: Explanation
    """The first input, with the embedding of the second held constant: its scores are the sums of the rows, and what a
    feature has together with sinks of the other side."""
    right: Explanation
    """The second input, likewise."""
    conservation: Conservation | None = None
    """Inputs × inputs, and what sinks of either side keep, are the similarity."""
    matches: tuple[tuple[int, int, float], ...] = ()
    """Of late interaction: each token of the first input, its partner in the second, and how similar they are, as the
    model embeds them."""
    rank: int | None = None
    """Its place among what was found, from 1."""
    index: int | None = None
    """Which of the inputs that were compared the second one is, from 0."""
    left_out: float = 0.0
    """Sum of the cells that `without_special` took out. The receipt's `inputs` has them."""

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float32)
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)
        if matrix.shape != (len(self.left), len(self.right)):
            raise ValueError(f"{len(self.left)} × {len(self.right)} expected, not a matrix of shape {matrix.shape}")

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The features of both inputs as they read."""
        return _names(self.left), _names(self.right)

    @property
    def method(self) -> str:
        return self.left.method

    @property
    def with_sinks(self) -> tuple[np.ndarray, np.ndarray]:
        """What the features of each input have together with sinks of the other: biases and positions of the model.

        Where special tokens were left out, with these too.
        """
        return (
            self.left.scores.reshape(-1) - self.matrix.sum(1, dtype=np.float64),
            self.right.scores.reshape(-1) - self.matrix.sum(0, dtype=np.float64),
        )

    def top(self, n: int = 5) -> list[tuple[str, str, float]]:
        """The `n` pairs that speak most for the similarity, strongest first."""
        best = np.argsort(-self.matrix.reshape(-1), kind="stable")[:n]
        return [self._named(int(place)) for place in best]

    def strongest(self, n: int = 5) -> list[tuple[int, int]]:
        """The `n` places of the matrix of largest size, for or against."""
        best = np.argsort(-np.abs(self.matrix.reshape(-1)), kind="stable")[:n]
        return [divmod(int(place), self.matrix.shape[1]) for place in best]

    def _named(self, place: int) -> tuple[str, str, float]:
        i, j = divmod(place, self.matrix.shape[1])
        return self.left.feature(i), self.right.feature(j), float(f"{self.matrix[i, j]:.6g}")

    @property
    def swapped(self) -> Pair:
        """The same with the second input first."""
        receipt = self.conservation
        if receipt is not None and receipt.sinks:
            turned = {"inputs × sinks": "sinks × inputs", "sinks × inputs": "inputs × sinks"}
            sinks = {turned.get(kind, kind): amount for kind, amount in receipt.sinks.items()}
            receipt = replace(receipt, sinks={kind: sinks[kind] for kind in receipt.sinks})
        matches = tuple((j, i, each) for i, j, each in self.matches)
        return replace(
            self, matrix=self.matrix.T, left=self.right, right=self.left, conservation=receipt, matches=matches
        )

    # -- units -----------------------------------------------------------------------------------------------

    def by(self, unit: Units) -> Pair:
        """The same over larger units of both texts, whose scores are summed; pictures stay as they are."""
        rows, columns = (_groups(side, unit) for side in (self.left, self.right))
        wide = self.matrix.astype(np.float64)
        wide = np.stack([wide[own].sum(0) for own in rows])
        wide = np.stack([wide[:, own].sum(1) for own in columns], 1)
        left, right = (side.by(unit) if side.tokens else side for side in (self.left, self.right))
        return replace(self, matrix=wide, left=left, right=right, matches=())

    def without_special(self) -> Pair:
        """The same without special tokens; `left_out` says how much their cells had, here and on each side."""
        rows, columns = (~np.array(s.special or (False,) * len(s), dtype=bool) for s in (self.left, self.right))
        left, right = self.left.without_special(), self.right.without_special()
        kept = self.matrix[rows][:, columns]
        left_out = self.left_out + float(self.matrix.sum(dtype=np.float64) - kept.sum(dtype=np.float64))
        return replace(self, matrix=kept, left=left, right=right, matches=(), left_out=left_out)

    # -- saving ----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {**self._meta(), "matrix": self.matrix.tolist()}

    def _meta(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "score": self.score,
            "measure": self.measure,
            "left": files.to_dict(self.left),
            "right": files.to_dict(self.right),
            "conservation": None if self.conservation is None else self.conservation.to_dict(),
            "matches": [list(match) for match in self.matches],
            "rank": self.rank,
            "index": self.index,
            "left_out": self.left_out,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], images: dict[str, np.ndarray] | None = None) -> Pair:
        if "matrix" not in data or data.get("format") != FORMAT:
            raise InputError("this file holds no pair that this version of whence can read")
        seen = images or {}
        receipt = data["conservation"]
        return cls(
            matrix=np.asarray(data["matrix"], dtype=np.float32),
            score=data["score"],
            measure=data["measure"],
            left=files.from_dict(Explanation, data["left"], seen.get("left")),
            right=files.from_dict(Explanation, data["right"], seen.get("right")),
            conservation=None if receipt is None else Conservation.from_dict(receipt),
            matches=tuple((int(i), int(j), float(each)) for i, j, each in data["matches"]),
            rank=data["rank"],
            index=data["index"],
            left_out=data["left_out"],
        )

    def _writers(self) -> Writers:
        sides = {"left": self.left.image, "right": self.right.image}
        images = {f"image_{name}": image for name, image in sides.items() if image is not None}
        return {
            ".json": lambda: spelled(self.to_dict()),
            ".npz": lambda: packed(self._meta(), {"matrix": self.matrix, **images}),
        }

    @classmethod
    def load(cls, path: str | Path) -> Pair:
        """Read what `save` wrote as .json or .npz."""
        with opened(path, "whence.Pair", ".json", ".npz") as (data, arrays):
            images = {name.removeprefix("image_"): image for name, image in arrays.items() if name != "matrix"}
            return cls.from_dict({**data, **arrays}, images)

    def __repr__(self) -> str:
        size = f"{self.matrix.shape[0]} × {self.matrix.shape[1]}"
        return f"<Pair of {self.measure} similarity {self.score:.4f} by {self.method}: {size}, top {self.top(3)}>"


def _names(exp: Explanation) -> tuple[str, ...]:
    return tuple(exp.feature(n) for n in range(len(exp)))


def _groups(exp: Explanation, unit: Units) -> list[list[int]]:
    if not exp.tokens:
        return [[n] for n in range(len(exp))]
    return [list(own) for _, own in groups_of(exp, unit)]
