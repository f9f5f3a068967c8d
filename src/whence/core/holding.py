"""Values that the backward pass will need, safe from what the model writes in place until then."""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor

__all__ = ["Held", "Holding"]


class Held:
    """A value as it is now. It shares its memory with the model until that is written to."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Tensor):
        self.value = value.detach()


class Holding:
    """Everything that is held in one pass."""

    def __init__(self) -> None:
        self._held: dict[int, list[weakref.ref[Held]]] = {}

    def hold(self, x: Tensor) -> Held:
        held = Held(x)
        self._held.setdefault(x.untyped_storage().data_ptr(), []).append(weakref.ref(held))
        return held

    def before_writing(self, x: Any) -> None:
        """The model is about to change `x` in place: copy what is held of it."""
        if isinstance(x, Tensor):
            for reference in self._held.pop(x.untyped_storage().data_ptr(), ()):
                if (held := reference()) is not None:
                    held.value = held.value.clone()
