"""The inside of a prediction: relevance of layers, heads, neurons and modules, and a receipt for every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import InputError, UnknownNameError
from whence.results import explanation_files as files
from whence.results.conservation import Conservation
from whence.results.explanation import Explanation
from whence.results.prediction import Prediction
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, packed, spelled

__all__ = ["Inside", "Scores"]

FORMAT = 1
Scores = np.ndarray | tuple[np.ndarray, ...]
"""A row for each layer; a tuple of rows where they differ in length."""


@dataclass(frozen=True, eq=False)
class Inside(Drawn):
    """Scores of places inside a model, for one target of one example.

    >>> exp = Explanation(np.array([1.0, 2.0]), tokens=("a", "gem"), target="positive")
    >>> inside = Inside(exp, {"heads": np.array([[0.5, -2.0], [1.0, 0.0]])}, layers=("layer.0", "layer.1"))
    >>> inside.top("heads", 2)
    [(0, 1, -2.0), (1, 0, 1.0)]
    """

    inputs: Explanation
    """The ordinary explanation: scores of the features of the input."""
    scores: dict[str, Scores]
    """By place: `layers`, `attentions`, `mlps` (layer, token); `heads` (layer, head); `neurons` (layer, neuron);
    `experts` (layer, expert); a module by its name (token). A layer that attends twice has two rows of heads."""
    layers: tuple[str, ...] = ()
    """The names of the blocks that ran, first to last."""
    receipts: tuple[Conservation, ...] = ()
    """One for each layer. Its `inputs` is the relevance of the layer; its sinks are what is absorbed behind it, with
    the inputs that come in behind it (`later inputs`) and what passes it (`beside`). Not `complete` where relevance
    passes the layer by on ways that were not seen."""
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By place, the layer that each row of its scores is in."""
    columns: tuple[tuple[str, ...], ...] = ()
    """For each layer, what its tokens are."""
    by_token: dict[str, Scores] = field(default_factory=dict)
    """`heads` once more as (layer, head, token), where attention is over all tokens."""

    def __post_init__(self) -> None:
        for name in ("scores", "by_token"):
            object.__setattr__(self, name, {place: _frozen(held) for place, held in getattr(self, name).items()})

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.inputs.tokens

    @property
    def target(self) -> str:
        return self.inputs.target

    @property
    def target_score(self) -> float:
        return self.inputs.target_score

    @property
    def prediction(self) -> Prediction:
        return self.inputs.prediction

    @property
    def method(self) -> str:
        return self.inputs.method

    @property
    def places(self) -> tuple[str, ...]:
        """What was asked for."""
        return tuple(self.scores)

    def __getitem__(self, place: str) -> Scores:
        if place not in self.scores:
            raise UnknownNameError("place", place, list(self.scores))
        return self.scores[place]

    # -- reading ---------------------------------------------------------------------------------------------

    def top(self, place: str, count: int = 10) -> list[tuple[Any, ...]]:
        """The strongest, for and against: (layer, head, score), (layer, neuron, score), (layer, token, score).

        Rows are counted as `whence.attention` and `whence.replace` count them.
        """
        held = self[place]
        entries = [(*at, float(score)) for at, score in _entries(held)]
        best = sorted(entries, key=lambda entry: -abs(entry[-1]) if entry[-1] == entry[-1] else 0.0)[:count]
        return [self._spelled(place, entry) for entry in best]

    def _spelled(self, place: str, entry: tuple[Any, ...]) -> tuple[Any, ...]:
        """Tokens by their names, where the place has one for each."""
        if place not in ("layers", "attentions", "mlps") or len(entry) != 3:
            return entry
        row, token, score = entry
        names = self.columns_of(place, row)
        return (row, names[token], score) if names else entry

    def columns_of(self, place: str, row: int) -> tuple[str, ...]:
        """What the columns of a row are: tokens, where it has one for each; else nothing."""
        layer = self.rows.get(place, ())[row] if row < len(self.rows.get(place, ())) else None
        width = np.shape(self[place][row])
        names = self.columns[layer] if layer is not None and layer < len(self.columns) else ()
        return names if width == (len(names),) else ()

    # -- saving ----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        held = {"scores": _listed(self.scores), "by_token": _listed(self.by_token)}
        return {**self._meta(), **held}

    def _meta(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "inputs": files.to_dict(self.inputs),
            "layers": list(self.layers),
            "receipts": [receipt.to_dict() for receipt in self.receipts],
            "rows": {place: list(layers) for place, layers in self.rows.items()},
            "columns": [list(names) for names in self.columns],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], image: np.ndarray | None = None) -> Inside:
        if "rows" not in data or "by_token" not in data or data.get("format") != FORMAT:
            raise InputError("this file holds no inside that this version of whence can read")
        return cls(
            inputs=files.from_dict(Explanation, data["inputs"], image),
            scores={place: _read(held) for place, held in data["scores"].items()},
            layers=tuple(data["layers"]),
            receipts=tuple(Conservation.from_dict(receipt) for receipt in data["receipts"]),
            rows={place: tuple(layers) for place, layers in data["rows"].items()},
            columns=tuple(tuple(names) for names in data["columns"]),
            by_token={place: _read(held) for place, held in data["by_token"].items()},
        )

    def _writers(self) -> Writers:
        return {
            ".json": lambda: spelled(self.to_dict()),
            ".npz": self._to_npz,
        }

    def _to_npz(self) -> bytes:
        arrays: dict[str, np.ndarray] = {}
        for name in ("scores", "by_token"):
            for place, held in getattr(self, name).items():
                rows = {f"{name}/{place}": held} if isinstance(held, np.ndarray) else {}
                arrays |= rows or {f"{name}/{place}/{n}": row for n, row in enumerate(held)}
        if self.inputs.image is not None:
            arrays["image"] = self.inputs.image
        return packed({**self._meta(), "scores": {}, "by_token": {}}, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Inside:
        """Read what `save` wrote as .json or .npz."""
        with opened(path, "whence.Inside", ".json", ".npz") as (data, arrays):
            image = arrays.pop("image", None)
            return cls.from_dict({**data, **_placed(arrays)}, image)

    def __repr__(self) -> str:
        shapes = "; ".join(f"{place} {_shape(held)}" for place, held in self.scores.items())
        return f"<Inside of {self.target!r} by {self.method}, {len(self.layers)} layers: {shapes}>"


def _placed(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """Arrays of an .npz by what they are and where: those of a place with rows of several lengths as a tuple."""
    held: dict[str, dict[str, Any]] = {}
    for key, array in arrays.items():
        name, place, *row = key.split("/", 2)
        places = held.setdefault(name, {})
        places[place] = (*places.get(place, ()), array) if row else array
    return held


def _frozen(held: Any) -> Scores:
    if isinstance(held, tuple):
        return tuple(np.asarray(_frozen(row)) for row in held)
    made = np.array(held, dtype=np.float32)
    made.setflags(write=False)
    return made


def _entries(held: Scores) -> Iterator[tuple[tuple[int, ...], float]]:
    if isinstance(held, np.ndarray):
        yield from np.ndenumerate(held)
        return
    for n, row in enumerate(held):
        yield from (((n, *at), score) for at, score in np.ndenumerate(row))


def _listed(held: Mapping[str, Scores]) -> dict[str, Any]:
    return {
        place: {"even": isinstance(rows, np.ndarray), "rows": [np.asarray(row).tolist() for row in rows]}
        for place, rows in held.items()
    }


def _read(held: Any) -> Scores:
    if not isinstance(held, Mapping):
        return held if isinstance(held, tuple) else np.asarray(held, dtype=np.float32)
    rows = [np.asarray(row, dtype=np.float32) for row in held["rows"]]
    return np.array(rows, dtype=np.float32) if held["even"] else tuple(rows)


def _shape(held: Scores) -> str:
    if isinstance(held, np.ndarray):
        return "×".join(map(str, held.shape))
    return f"{len(held)} rows of " + ", ".join(sorted({"×".join(map(str, row.shape)) for row in held}))
