"""What every method is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch

from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example
from whence.models.targets import AbstractTarget
from whence.registry import Registry
from whence.results import Explanation

__all__ = ["AbstractMethod", "make", "methods"]


@dataclass(frozen=True, kw_only=True)
class AbstractMethod(ABC):
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
        """One explanation per example."""

    def options(self) -> dict[str, Any]:
        """The options as plain values, for provenance."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def build(self, model: AbstractAdapter, example: Example, **values: Any) -> Explanation:
        """An explanation with this method's name, options and versions filled in."""
        return model.explanation(example, **self.stamp(model), **values)

    def stamp(self, model: AbstractAdapter) -> dict[str, Any]:
        """What all explanations by this method of this model have in common: name, options, versions."""
        import transformers

        import whence

        provenance = {
            **model.provenance(),
            "whence": whence.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        return {
            "method": self.name,
            "options": self.options(),
            "class_specific": self.class_specific,
            "provenance": provenance,
        }


methods: Registry[Callable[..., AbstractMethod]] = Registry("method")


def make(method: Any, **options: Any) -> AbstractMethod:
    """A method from its name, the path of a saved recipe, or itself, with options."""
    if isinstance(method, AbstractMethod):
        if options:
            raise InputError(f"pass options to the method itself, {type(method).__name__}({', '.join(options)}=…)")
        return method
    if isinstance(method, str) and method.endswith(".json"):
        from whence.core.recipe import Recipe
        from whence.methods.propagate import Propagate  # it lies above this module

        return Propagate(recipe=Recipe.load(method), **options)
    factory: Any = methods[method]
    try:
        return factory(**options)
    except TypeError as error:
        known = [f.name for f in fields(getattr(factory, "func", factory)) if f.name != "recipe"]
        raise InputError(f"method {method!r}: {error}. Its options: {', '.join(known)}") from None
