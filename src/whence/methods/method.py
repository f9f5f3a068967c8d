"""What every method is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.targets import AbstractTarget
from whence.options import Options
from whence.registry import Registry
from whence.results import Explanation
from whence.stamp import versions

__all__ = ["AbstractMethod", "class_of", "methods"]


@dataclass(frozen=True, kw_only=True)
class AbstractMethod(Options, ABC):
    """A frozen set of options; `explain` turns a batch of encoded examples into explanations."""

    class_specific: ClassVar[bool] = True
    """Whether another target gives another explanation."""
    cost: ClassVar[str] = "1 forward, 1 backward"

    @property
    def name(self) -> str:
        return next((n for n, made in methods.items() if made is type(self)), type(self).__name__)

    @abstractmethod
    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        """One explanation per example, of examples that may stand in one batch."""

    def options(self) -> dict[str, Any]:
        """The options as plain values."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def build(self, model: AbstractAdapter, example: Example, **values: Any) -> Explanation:
        """An explanation with this method's name, options and versions filled in."""
        return model.explanation(example, **self.stamped(model), **values)

    def stamped(self, model: AbstractAdapter) -> dict[str, Any]:
        """What all explanations by this method of this model have in common."""
        return {
            "method": self.name,
            "options": self.options(),
            "class_specific": self.class_specific,
            "stamp": {**model.facts(), **versions()},
        }


methods: Registry[Callable[..., AbstractMethod]] = Registry("method")


def class_of(name: str) -> type[AbstractMethod]:
    """The class that a registered name makes."""
    factory: Any = methods[name]
    found: type[AbstractMethod] = getattr(factory, "func", factory)
    return found
