"""Several results in a list that shows and saves itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, SupportsIndex, TypeVar, overload

from whence.errors import InputError
from whence.results.explanation import Explanation
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, spelled

__all__ = ["Several"]

T = TypeVar("T")
FORMAT = 1


class Several(list[T], Drawn, Generic[T]):
    """A list, in all that a list does, which a notebook and a terminal show as its results, and which saves them.

    None stands where an input could not be explained.

    >>> import numpy as np
    >>> found = Several([Explanation(np.array([0.9]), ("gem",)), Explanation(np.array([0.1]), ("bore",))])
    >>> [exp.tokens for exp in found[1:]], isinstance(found, list)
    ([('bore',)], True)
    """

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...
    @overload
    def __getitem__(self, index: slice, /) -> Several[T]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> T | Several[T]:
        return Several(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    def _writers(self) -> Writers:
        return {".json": self._json}

    def _json(self) -> str:
        held = [None if one is None else _known(one).to_dict() for one in self]
        return spelled({"format": FORMAT, "several": held})

    @classmethod
    def load(cls, path: str | Path) -> Several[Explanation]:
        """Read the explanations that `save` wrote as .json."""
        with opened(path, "whence.Several", ".json") as (data, _):
            if not isinstance(data, dict) or "several" not in data:
                raise InputError(
                    "this file holds no list of explanations; read a single one with whence.Explanation.load, those of "
                    "one input with whence.Comparison.load"
                )
            # None stands where there is no explanation, as in what was saved
            made = [Explanation.from_dict(one) if one is not None else None for one in data["several"]]
            return Several[Explanation](made)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return repr(self)  # as any list


def _known(one: Any) -> Explanation:
    if not isinstance(one, Explanation):
        raise InputError(f"a list of {type(one).__name__}s is saved one by one: for n, one in enumerate(found): …")
    return one
