"""One intercepted call of a torch function, as a rule sees it, and the marks that tensors carry between calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from whence.core.interception import Interception
    from whence.core.ledger import NoLedger
    from whence.core.recipe import Recipe

__all__ = ["Call", "Origin", "Rule", "is_tainted", "mark_origin", "mark_role", "origin_of", "role_of", "tensors_in"]


class Call:
    """A torch function with its arguments. Parameters have been detached; the mode is off while a rule runs.

    A rule takes a call and returns the value the function would return, with whatever backward it likes:

    >>> def detach_result(call):
    ...     return call.run().detach()
    """

    __slots__ = ("args", "func", "interception", "kwargs", "name")

    def __init__(self, func: Callable, name: str, args: tuple, kwargs: dict[str, Any], interception: Interception):
        self.func, self.name, self.args, self.kwargs, self.interception = func, name, args, kwargs, interception

    @property
    def recipe(self) -> Recipe:
        return self.interception.recipe

    @property
    def ledger(self) -> NoLedger:
        return self.interception.ledger

    def run(self) -> Any:
        """The function as it is."""
        return self.func(*self.args, **self.kwargs)

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument given by position or by name."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)

    def replaced(self, position: int, name: str, value: Any) -> Call:
        """The same call with one argument exchanged."""
        if len(self.args) > position:
            args, kwargs = (*self.args[:position], value, *self.args[position + 1 :]), self.kwargs
        else:
            args, kwargs = self.args, {**self.kwargs, name: value}
        return Call(self.func, self.name, args, kwargs, self.interception)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Call:
        """The same call with `change` applied to every tensor, also inside lists."""
        args = tuple(_mapped(change, a) for a in self.args)
        kwargs = {k: _mapped(change, v) for k, v in self.kwargs.items()}
        return Call(self.func, self.name, args, kwargs, self.interception)

    def tensors(self) -> list[Tensor]:
        return list(tensors_in(self.args, self.kwargs))

    def tainted(self) -> list[Tensor]:
        return [t for t in tensors_in(self.args, self.kwargs) if t.requires_grad]


Rule = Callable[[Call], Any]


def _mapped(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    # Not a closure in `mapped`: one that calls itself is a circle, and would keep the graph until garbage collection.
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_mapped(change, item) for item in value)
    return value


def tensors_in(args: tuple, kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """Every tensor among the arguments, one level deep into lists and tuples."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, Tensor):
                    yield item


def is_tainted(value: Any) -> bool:
    """Whether relevance can reach an input through this tensor."""
    return isinstance(value, Tensor) and value.requires_grad


# Marks live as attributes on the tensors that a forward pass makes; they vanish with them.


class Origin:
    """The tensor that an elementwise chain began with: 0.5 * x * (1 + tanh(x)) is a function of one x."""

    __slots__ = ()


def origin_of(x: Any, *, create: bool = False) -> tuple[Origin | None, bool]:
    """The origin of `x` and whether `x` is a multiple of it (or a homogeneous function, such as ReLU)."""
    found = getattr(x, "_whence_origin", None)
    if found is None and create and isinstance(x, Tensor):
        found = x._whence_origin = (Origin(), True)  # type: ignore[attr-defined]
    return found or (None, True)


def mark_origin(out: Any, x: Any, *, linear: bool) -> None:
    """`out` is an elementwise function of `x`."""
    if isinstance(out, Tensor):
        origin, was_linear = origin_of(x, create=True)
        out._whence_origin = (origin, linear and was_linear)  # type: ignore[attr-defined]


def role_of(x: Any) -> str | None:
    """What `x` is in its model: "probability", "gate", "deviation", "position", or nothing special."""
    return getattr(x, "_whence_role", None)


def mark_role(out: Any, role: str | None) -> None:
    if role is not None and isinstance(out, Tensor):
        out._whence_role = role  # type: ignore[attr-defined]
