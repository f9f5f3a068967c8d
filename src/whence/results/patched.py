"""What a place inside a model does for a score: the effect of putting another run's activation there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import InputError
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, spelled

__all__ = ["Patching", "pearson"]

FORMAT = 1
EDGES = "edges"
SINGULAR = {"heads": "head", "layers": "layer", "attentions": "attention", "mlps": "mlp"}


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two arrays where both are known; NaN where one of them does not vary.

    >>> pearson(np.array([0.0, 1.0, np.nan]), np.array([1.0, 3.0, 0.0]))
    1.0
    """
    both = np.isfinite(a) & np.isfinite(b)
    x, y = (v[both].astype(np.float64) - v[both].mean() if both.any() else np.zeros(0) for v in (a, b))
    size = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum() / size) if size > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class Patching(Drawn):
    """Effects of patching, a row for each place: one number for each of its heads, or for each token. Of edges, a row
    for each place they lead from and a column for each they lead to.

    effect = score of the run `into` with the other run's activation at the place − score of the run `into`. It is
    estimated by all methods but "activation", which runs the model and is the truth.

    >>> found = Patching(np.array([[0.0, -2.0], [0.5, 0.0]]), kind="heads", method="relp", target="Mary")
    >>> found.top(1)
    [('layer 0 head 1', -2.0)]
    """

    effects: np.ndarray
    """(place, head) or (place, token), NaN where a place has fewer than others; of edges (from, to), NaN for none."""
    kind: str
    """"heads", "mlps", "attentions", "layers" or "edges"."""
    method: str
    target: str
    layers: tuple[int, ...] = ()
    """Which block each place is in; two places may be in one (a decoder has two attentions)."""
    tokens: tuple[str, ...] = ()
    """The tokens of the run that is patched; of heads, whose parts are no tokens, too."""
    other_tokens: tuple[str, ...] = ()
    """The tokens of the run that the activations come from."""
    clean_score: float = float("nan")
    corrupt_score: float = float("nan")
    into: str = "clean"
    """Which run is patched."""
    truth: np.ndarray | None = None
    """The effects by true patching, where they were asked for; NaN where the model was not run."""
    rows: tuple[str, ...] = ()
    """Of edges, what they lead from: "input", "layer 0 head 0", …, "layer 0 mlp", …"""
    columns: tuple[str, ...] = ()
    """Of edges, what they lead to: heads, MLPs and "target"."""
    options: dict[str, Any] = field(default_factory=dict)
    stamp: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("effects", "truth"):
            value = getattr(self, name)
            if value is not None:
                made = np.array(value, dtype=np.float64)
                made.setflags(write=False)
                object.__setattr__(self, name, made)
        if self.effects.ndim != 2 or (self.truth is not None and self.truth.shape != self.effects.shape):
            raise ValueError("effects and truth are (place, head) or (place, token), of one shape")
        if self.kind == EDGES and self.effects.shape != (len(self.rows), len(self.columns)):
            raise ValueError("edges have names for what they lead from (rows) and to (columns)")
        if not self.layers:
            object.__setattr__(self, "layers", tuple(range(len(self.effects))))

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def importance(self) -> np.ndarray:
        """What each place carries of the difference between the runs: positive where it speaks for the clean one."""
        return -self.effects if self.into == "clean" else self.effects

    @property
    def checked(self) -> np.ndarray:
        """Effects, by true patching where the model was run."""
        return self.effects if self.truth is None else np.where(np.isnan(self.truth), self.effects, self.truth)

    @property
    def by_layer(self) -> np.ndarray:
        """Effects summed over heads or tokens, one for each place; of edges, over all that leave a place."""
        return np.asarray(np.nansum(self.effects, axis=1))

    @property
    def correlation(self) -> float | None:
        """Pearson's, between effects and truth over all places that were run; None where no truth was asked for."""
        return None if self.truth is None else pearson(self.effects, self.truth)

    def row(self, place: int) -> str:
        """What a place is called."""
        if self.kind == EDGES:
            return self.rows[place]
        layer = self.layers[place]
        same = [n for n, own in enumerate(self.layers) if own == layer]
        return f"layer {layer}" if len(same) == 1 else f"layer {layer} ({same.index(place) + 1} of {len(same)})"

    def column(self, part: int) -> str:
        """What a part of a place is called: the number of a head, or a token; of an edge, what it leads to."""
        if self.kind == EDGES:
            return self.columns[part]
        if self.kind == "heads":
            return str(part)
        return self.tokens[part] if part < len(self.tokens) else str(part)

    def name(self, place: int, part: int) -> str:
        """What a part of a place is called, in full."""
        if self.kind == EDGES:
            return f"{self.rows[place]} → {self.columns[part]}"
        if self.kind == "heads":
            return f"{self.row(place)} head {part}"
        what = "" if self.kind == "layers" else f" {SINGULAR.get(self.kind, self.kind)}"
        return f"{self.row(place)}{what} at {self.column(part).strip() or '␣'!r} ({part})"

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """The `n` largest effects by size, the largest first."""
        return [(self.name(*cell), float(self.effects[cell])) for cell in self.strongest(n)]

    def strongest(self, n: int = 10) -> list[tuple[int, int]]:
        """Where the `n` largest effects stand, by size, the largest first."""
        sizes = np.abs(self.effects).reshape(-1)
        order = np.argsort(-np.nan_to_num(sizes, nan=-1.0), kind="stable")
        order = order[np.isfinite(sizes[order])][:n]
        return [divmod(int(i), self.effects.shape[1]) for i in order]

    # -- saving ----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": self.kind,
            "method": self.method,
            "target": self.target,
            "into": self.into,
            "clean_score": _known(self.clean_score),
            "corrupt_score": _known(self.corrupt_score),
            "layers": list(self.layers),
            "tokens": list(self.tokens),
            "other_tokens": list(self.other_tokens),
            "effects": _rows(self.effects),
            "truth": None if self.truth is None else _rows(self.truth),
            "correlation": None if self.correlation is None else _known(self.correlation),
            **({"rows": list(self.rows), "columns": list(self.columns)} if self.kind == EDGES else {}),
            "options": dict(self.options),
            "stamp": dict(self.stamp),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Patching:
        if not isinstance(data, dict) or "effects" not in data or data.get("format") != FORMAT:
            raise InputError("this file holds no patching that this version of whence can read")
        given: dict[str, Any] = {name: data[name] for name in ("kind", "method", "target", "into", "options", "stamp")}
        given |= {name: tuple(data[name]) for name in ("layers", "tokens", "other_tokens")}
        given |= {name: tuple(data.get(name, ())) for name in ("rows", "columns")}
        given |= {name: _number(data[name]) for name in ("clean_score", "corrupt_score")}
        truth = None if data["truth"] is None else _array(data["truth"])
        return cls(effects=_array(data["effects"]), truth=truth, **given)

    def _writers(self) -> Writers:
        return {".json": lambda: spelled(self.to_dict())}

    @classmethod
    def load(cls, path: str | Path) -> Patching:
        """Read what `save` wrote as .json."""
        with opened(path, "whence.Patching", ".json") as (data, _):
            return cls.from_dict(data)

    def __repr__(self) -> str:
        best = ", ".join(f"{name} {effect:+.3g}" for name, effect in self.top(2))
        against = "" if self.correlation is None else f", r = {self.correlation:.3f} with the truth"
        return f"<Patching of {self.kind} by {self.method}: {best}{against}>"


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _rows(values: np.ndarray) -> list[list[float | None]]:
    return [[_known(v) for v in row] for row in values.tolist()]


def _array(rows: list[list[float | None]]) -> np.ndarray:
    return np.array([[_number(v) for v in row] for row in rows], dtype=np.float64)
