"""A trace: where each token of a written text came from, and by way of which others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from whence.errors import InputError
from whence.results import explanation_files as files
from whence.results.conservation import Conservation
from whence.results.explanation import Explanation
from whence.results.hops import Hops, passed_on
from whence.results.prediction import Prediction
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, packed, spelled
from whence.results.units import Units, groups_of, tokens_reading, words_among

__all__ = ["Trace"]

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Trace(Drawn):
    """Scores of the features of the input, and of all that was written before, for each token that a model wrote.

    >>> whole = Explanation(np.array([3.0, 1.0]), tokens=("Say", " yes"), target=" yes!")
    >>> trace = Trace(np.array([[2.0, 0.0], [1.0, 1.0]]), whole, written=(" yes", "!"), places=((1, 2), (2, 2)))
    >>> trace[1].top(1), trace.span().scores.tolist()
    ([('Say', 1.0)], [3.0, 1.0])
    """

    scores: np.ndarray
    """(written, earlier): a row for each written token, a column for each token (or other feature) of the input. The
    last written token has no column: nothing was written after it."""
    whole: Explanation
    """All that was written, explained as one: it knows what the columns are."""
    written: tuple[str, ...]
    """The written tokens, or what else the rows are: words, sentences."""
    places: tuple[tuple[int, int], ...]
    """Which columns are the tokens of each row: the first, and the one behind the last."""
    targets: tuple[str, ...] = ()
    """What is explained in each row."""
    target_scores: tuple[float, ...] = ()
    receipts: tuple[Conservation, ...] = ()
    """One for each row; empty where the method has none."""
    ids: tuple[int, ...] = ()
    """All written tokens by their ids, whatever the rows are: `explain(…, continuation=trace.ids)` takes the very same
    text."""

    def __post_init__(self) -> None:
        scores = np.array(self.scores, dtype=np.float32)
        scores.setflags(write=False)
        object.__setattr__(self, "scores", scores)
        if scores.shape != (len(self.written), len(self.whole)):
            raise ValueError(f"{len(self.written)} × {len(self.whole)} expected, not scores of shape {scores.shape}")
        if len(self.places) != len(self.written):
            raise ValueError(f"{len(self.places)} places for {len(self.written)} rows")

    @classmethod
    def of(
        cls,
        rows: Sequence[Explanation],
        written: Sequence[str],
        places: Sequence[tuple[int, int]],
        ids: Sequence[int] = (),
    ) -> Trace:
        """From one explanation for each row."""
        receipts = tuple(row.conservation for row in rows if row.conservation is not None)
        return cls(
            scores=np.stack([row.scores.reshape(-1) for row in rows]),
            whole=_together(rows, "".join(written)),
            written=tuple(written),
            places=tuple(places),
            targets=tuple(row.target for row in rows),
            target_scores=tuple(row.target_score for row in rows),
            receipts=receipts if len(receipts) == len(rows) else (),
            ids=tuple(ids),
        )

    def __len__(self) -> int:
        return len(self.written)

    @property
    def tokens(self) -> tuple[str, ...]:
        """What the columns are: the tokens of the prompt, and those written tokens that another one followed."""
        return self.whole.tokens

    @property
    def text(self) -> str:
        """What was written."""
        return "".join(self.written)

    # -- reading ---------------------------------------------------------------------------------------------

    def span(self, start: int | str = 0, stop: int | None = None, *, hops: Hops = 0) -> Explanation:
        """Rows `start` to `stop` as one explanation, all by default; or the rows of words that were written.

        With `hops`, what comes from the model's own text is passed on to where that text came from: so many times, or
        until little is left ("all").
        """
        rows = self._rows(start, stop)
        name = "".join(self.written[n] for n in rows)
        if len(rows) == 1 and self.targets:
            name = self.targets[rows[0]]
        made = self._sum(dict.fromkeys(rows, 1.0), name)
        if hops == 0:
            return made
        if not self.target_scores:
            raise InputError("this trace does not say what its rows amount to, so hops have nothing to go by")

        def go_back(weights: list[float]) -> Explanation:
            return self._sum({n: w for n, w in enumerate(weights) if w}, made.target)

        return passed_on(made, self.places, self.target_scores, go_back, hops)

    def __getitem__(self, row: int) -> Explanation:
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} does not exist: {len(self)} were written")
        return self.span(row % len(self), row % len(self) + 1)

    def _rows(self, start: int | str, stop: int | None) -> range:
        if isinstance(start, str):
            return tokens_reading(start, self.written)
        rows = range(len(self))[start:stop]
        if not rows:
            raise InputError(f"span({start}, {stop}) holds nothing: {len(self)} rows were written")
        return rows

    def _sum(self, weights: dict[int, float], name: str) -> Explanation:
        """Rows, each times its weight."""
        chosen, factors = list(weights), np.array(list(weights.values()))
        flat = factors @ self.scores[chosen].astype(np.float64)
        scores = float(factors @ np.array(self.target_scores)[chosen]) if self.target_scores else float("nan")
        receipt = None
        if self.receipts:
            receipt = Conservation.added([self.receipts[n] for n in chosen], factors.tolist())
        return replace(
            self.whole,
            prediction=self.whole.prediction if 0 in chosen else Prediction(),  # which is of the first token
            scores=flat.reshape(self.whole.scores.shape),
            target=name,
            target_score=scores,
            conservation=receipt,
        )

    # -- units -----------------------------------------------------------------------------------------------

    def by(self, unit: Units, rows: Literal["token", "word", "sentence"] | None = None) -> Trace:
        """The same over larger units of the input and, with `rows`, of what was written. Scores are summed."""
        groups = groups_of(self.whole, unit)
        wide = self.scores.astype(np.float64)
        scores = np.stack([wide[:, own].sum(1) for _, own in groups], 1)
        group_of = np.zeros(len(self.whole) + 1, dtype=int)
        for n, (_, own) in enumerate(groups):
            group_of[own] = n
        group_of[-1] = len(groups)
        places = tuple(
            (int(group_of[a]), int(group_of[b - 1]) + 1 if b > a else int(group_of[a])) for a, b in self.places
        )
        made = replace(self, scores=scores, whole=self.whole.by(unit), places=places)
        return made if rows is None or rows == "token" else made._with_rows(rows)

    def _with_rows(self, unit: Units) -> Trace:
        """Rows of larger units."""
        text = Explanation(np.zeros(len(self)), tokens=self.written, word_ids=words_among(self.written))
        groups = [own for _, own in groups_of(text, unit)]
        sums = [self._sum(dict.fromkeys(own, 1.0), "".join(self.written[n] for n in own)) for own in groups]
        places = [(self.places[own[0]][0], self.places[own[-1]][1]) for own in groups]
        made = Trace.of(sums, ["".join(self.written[n] for n in own) for own in groups], places, self.ids)
        return replace(made, whole=self.whole)

    # -- saving ----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {**self._meta(), "scores": self.scores.tolist()}

    def _meta(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "whole": files.to_dict(self.whole),
            "written": list(self.written),
            "places": [list(place) for place in self.places],
            "targets": list(self.targets),
            "target_scores": list(self.target_scores),
            "receipts": [receipt.to_dict() for receipt in self.receipts],
            "ids": list(self.ids),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], image: np.ndarray | None = None) -> Trace:
        if "written" not in data or data.get("format") != FORMAT:
            raise InputError("this file holds no trace that this version of whence can read")
        return cls(
            scores=np.asarray(data["scores"], dtype=np.float32),
            whole=files.from_dict(Explanation, data["whole"], image),
            written=tuple(data["written"]),
            places=tuple((int(a), int(b)) for a, b in data["places"]),
            targets=tuple(data["targets"]),
            target_scores=tuple(data["target_scores"]),
            receipts=tuple(Conservation.from_dict(receipt) for receipt in data["receipts"]),
            ids=tuple(data.get("ids", ())),
        )

    def _writers(self) -> Writers:
        image = {} if self.whole.image is None else {"image": self.whole.image}
        return {
            ".json": lambda: spelled(self.to_dict()),
            ".npz": lambda: packed(self._meta(), {"scores": self.scores, **image}),
        }

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote as .json or .npz."""
        with opened(path, "whence.Trace", ".json", ".npz") as (data, arrays):
            image = arrays.pop("image", None)
            return cls.from_dict({**data, **arrays}, image)

    def __repr__(self) -> str:
        return f"<Trace of {self.text!r} by {self.whole.method}: {len(self)} × {len(self.whole)}>"


def _together(rows: Sequence[Explanation], name: str) -> Explanation:
    """All rows as one explanation."""
    receipts = [row.conservation for row in rows if row.conservation is not None]
    return replace(
        rows[0],
        scores=np.sum([row.scores.astype(np.float64) for row in rows], 0),
        target=name,
        target_score=float(sum(row.target_score for row in rows)),
        conservation=Conservation.added(receipts) if len(receipts) == len(rows) else None,
    )
