"""Several explanations of one input: one per method, and per target where several were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from whence.errors import InputError
from whence.results import explanation_files as files
from whence.results.explanation import Explanation
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, spelled

__all__ = ["Comparison"]


@dataclass(frozen=True, eq=False)
class Comparison(Drawn, Sequence[Explanation]):
    """Explanations of one input, to be looked at side by side. Reads like a list of them.

    >>> import numpy as np
    >>> one = Explanation(scores=np.array([0.1, 0.9]), tokens=("a", "gem"), target="positive", method="lrp")
    >>> Comparison((one,)).methods
    ('lrp',)
    """

    explanations: tuple[Explanation, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "explanations", tuple(self.explanations))
        if not self.explanations:
            raise InputError("there is nothing to compare: pass at least one explanation")

    def __len__(self) -> int:
        return len(self.explanations)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Explanation, ...]: ...
    def __getitem__(self, index: int | slice) -> Explanation | tuple[Explanation, ...]:
        return self.explanations[index]

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.explanations)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(exp.method for exp in self))

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(exp.target for exp in self))

    def of(self, *, method: str | None = None, target: str | None = None) -> Comparison:
        """Those of one method, of one target, or both."""
        kept = [e for e in self if method in (None, e.method) and target in (None, e.target)]
        if not kept:
            raise InputError(f"no explanation by {method!r} of {target!r}: have {self.methods} of {self.targets}")
        return Comparison(tuple(kept))

    # -- saving and showing ----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {"format": files.FORMAT, "explanations": [exp.to_dict() for exp in self]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Comparison:
        if not isinstance(data, dict) or "explanations" not in data:
            raise InputError("this file holds no comparison; read a single explanation with whence.Explanation.load")
        return cls(tuple(Explanation.from_dict(part) for part in data["explanations"]))

    def _writers(self) -> Writers:
        return {".json": lambda: spelled(self.to_dict())}

    @classmethod
    def load(cls, path: str | Path) -> Comparison:
        """Read what `save` wrote as .json."""
        with opened(path, "whence.Comparison", ".json") as (data, _):
            return cls.from_dict(data)

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.methods)} for {', '.join(map(repr, self.targets))}>"
