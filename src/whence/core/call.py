"""One intercepted call of a torch function, as a rule sees it, and the marks that tensors carry between calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from whence.core.backward import Gradients
from whence.core.layout import Layout, follow, layout_of
from whence.core.naming import name_of

if TYPE_CHECKING:
    from whence.core.interception import Interception
    from whence.core.recipe import Recipe

__all__ = [
    "Call",
    "Gate",
    "Origin",
    "Rule",
    "Table",
    "forget_value",
    "gate_of",
    "is_tainted",
    "mark_gate",
    "mark_origin",
    "mark_role",
    "mark_table",
    "origin_of",
    "role_of",
    "same_marks",
    "table_of",
    "tensors_in",
]


class Call:
    """A torch function with its arguments. Parameters have been detached; the mode is off while a rule runs.

    A rule takes a call and returns the value the function would return, with whatever backward it likes:

    >>> def detach_result(call):
    ...     return call.run().detach()
    """

    __slots__ = ("args", "func", "interception", "kwargs", "name")

    def __init__(
        self,
        func: Callable[..., Any],
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        interception: Interception,
    ):
        self.func, self.name, self.args, self.kwargs, self.interception = func, name, args, kwargs, interception

    @property
    def recipe(self) -> Recipe:
        return self.interception.recipe

    @property
    def is_in_place(self) -> bool:
        """Whether the function writes into its first argument."""
        return name_of(self.func).inplace

    # -- running ---------------------------------------------------------------------------------------------

    def run(self) -> Any:
        """The function as it is."""
        return self.func(*self.args, **self.kwargs)

    def at(self, x: Any) -> Any:
        """The function with `x` for its first argument, and never in place."""
        rest = {k: v for k, v in self.kwargs.items() if k not in ("inplace", "input")}
        return self.func(x, *self.args[1:], **rest)

    def with_inputs(self, old: Sequence[Tensor], new: Sequence[Tensor]) -> Call:
        """The same call with tensors exchanged, wherever they stand among the arguments."""
        swap = {id(a): b for a, b in zip(old, new, strict=True)}
        return self.mapped(lambda t: swap.get(id(t), t))

    # -- arguments -------------------------------------------------------------------------------------------

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
        """Every argument that carries relevance; one that is passed twice stands here twice."""
        return [t for t in tensors_in(self.args, self.kwargs) if t.requires_grad]

    # -- accounts --------------------------------------------------------------------------------------------

    @property
    def keeps_books(self) -> bool:
        """Whether anybody wants to know where relevance is absorbed."""
        return self.interception.ledger.active

    def book(self, kind: str, out: Tensor, value: Any) -> None:
        """`value`, broadcast to `out`, is a summand of `out` that carries no relevance further."""
        ledger = self.interception.ledger
        if ledger.active:
            ledger.constant(kind, self.name, out, value, self.layout(out), table_of(value))

    def measure(self, kind: str, inputs: Sequence[Any], compute: Callable[..., Any]) -> Any:
        """Run `compute(*inputs)`; what it takes in less what it hands on is absorbed."""
        ledger = self.interception.ledger
        if not ledger.active:
            return compute(*inputs)
        return ledger.measure(kind, self.name, inputs, compute, self.layout)

    def measured(self, kind: str) -> Any:
        """The function with its own gradient in all its tensors, measured."""
        tainted = list({id(t): t for t in self.tainted()}.values())
        return self.measure(kind, tainted, lambda *watched: self.with_inputs(tainted, watched).run())

    def layout(self, out: Tensor) -> Layout | None:
        """Where the examples lie in `out`, a result of this call or of a part of it."""
        return (layout_of(out) or follow(self.name, self.args, self.kwargs, out)) if self.interception.follows else None


Rule = Callable[[Call], Any]


def _mapped(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    # Not a closure in `mapped`: one that calls itself is a circle, and would keep the graph until garbage collection.
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_mapped(change, item) for item in value)
    return value


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
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
    """What `x` is in its model, or nothing special.

    probability  a softmax: what it multiplies is weighed by it
    gate         an activation that multiplies something else
    deviation    a size by which something is divided
    """
    return getattr(x, "_whence_role", None)


def mark_role(out: Any, role: str | None) -> None:
    if role is not None and isinstance(out, Tensor):
        out._whence_role = role  # type: ignore[attr-defined]


class Gate(NamedTuple):
    """What an activation f was computed from: a product with it needs no more."""

    x: Tensor
    gradients: Gradients


def gate_of(x: Any) -> Gate | None:
    return getattr(x, "_whence_gate", None)


def mark_gate(out: Tensor, gate: Gate) -> None:
    out._whence_gate = gate  # type: ignore[attr-defined]


class Table(NamedTuple):
    """A constant of several vectors: a parameter, or what an index that is no token chose from one."""

    chosen_by: Tensor | None = None


def table_of(x: Any) -> Table | None:
    return getattr(x, "_whence_table", None)


def mark_table(out: Any, table: Table | None) -> None:
    if table is not None and isinstance(out, Tensor):
        out._whence_table = table  # type: ignore[attr-defined]


def same_marks(copy: Tensor, original: Tensor) -> Tensor:
    """`copy` stands for `original`: it carries the same marks."""
    if copy is not original:
        for mark in ("_whence_origin", "_whence_role", "_whence_layout"):
            if (value := getattr(original, mark, None)) is not None:
                setattr(copy, mark, value)
    return copy


def forget_value(x: Tensor) -> None:
    """`x` was written into: what was known of its value holds no longer."""
    for mark in ("_whence_origin", "_whence_role", "_whence_gate"):
        if hasattr(x, mark):
            delattr(x, mark)
