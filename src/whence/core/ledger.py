"""The ledger: where every unit of relevance went.

In a gradient recipe the relevance of a tensor x is Σ x · ∂f/∂x. A function that is linear in the tensors that
carry relevance hands on what it gets. Whatever else happens is an entry here:

- a *constant* c joins additively (a bias, a position, a mask value): it keeps Σ c · ∂f/∂y;
- a function is left with its ordinary gradient by the recipe (softmax, activation, …): the difference between
  what came in and what went out is *measured*;
- a function has no rule: measured too, under the kind "unruled". These are what breaks conservation.

Entries are per example. A tensor does not say which of its axes is the batch: it is found from the shape, and
amounts that can't be split are kept apart (`unsplit`), so that the caller can go back to single examples.
"""

from __future__ import annotations

import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from whence.core.backward import on_gradient
from whence.core.numerics import widened

__all__ = ["Entry", "Ledger", "NoLedger"]


class Entry(NamedTuple):
    """What kind of absorption, at which function, in which layer (empty unless layers are wanted)."""

    kind: str
    function: str
    layer: str


class _Held:
    """A value that is weighed in the backward pass. It shares its memory with the model until that is written to."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Tensor):
        self.value = value.detach()


class NoLedger:
    """Keeps no books: every method does what it must for the value and nothing for the account."""

    active = False

    def constant(self, kind: str, function: str, out: Tensor, value: Any) -> None:
        return

    def measure(self, kind: str, function: str, inputs: Sequence[Tensor], compute: Callable[..., Any]) -> Any:
        return compute(*inputs)

    def before_writing(self, x: Any) -> None:
        return


class Ledger(NoLedger):
    """Books for one forward and backward pass over a batch."""

    active = True

    def __init__(self, examples: int, length: int | None = None, layers: nn.Module | None = None):
        self.examples = examples
        self.length = length
        self.amounts: dict[Entry, Tensor] = {}
        self.unsplit: dict[Entry, Tensor] = {}
        self.positions: Tensor | None = None
        """What position embeddings keep, per token (batch, token), where they are added to the tokens."""
        self.calls: dict[Entry, int] = defaultdict(int)
        self.open = True
        self._held: dict[int, list[weakref.ref[_Held]]] = {}
        self._names = {id(m): name for name, m in layers.named_modules()} if layers is not None else {}

    # -- entries ---------------------------------------------------------------------------------------------

    def constant(self, kind: str, function: str, out: Tensor, value: Any) -> None:
        """`value`, broadcast to `out`, is a summand of `out` that carries no relevance further."""
        if value is None or not self.open or not out.requires_grad:
            return
        if not isinstance(value, Tensor):
            if value == 0:
                return
            value = torch.tensor(value, dtype=torch.promote_types(out.dtype, torch.float32), device=out.device)
        value = value.detach()
        entry = self._entry(kind, function)
        on_gradient(out, lambda grad: self._add(entry, grad, value))

    def measure(
        self, kind: str, function: str, inputs: Sequence[Tensor], compute: Callable[..., Any], *, apart: bool = False
    ) -> Any:
        """Run `compute(*inputs)` and enter what it takes in less what it hands on.

        `apart` copies the result: needed where `compute` hooks what it returns, for the gradient is weighed before.
        """
        if not self.open or not torch.is_grad_enabled():
            return compute(*inputs)
        watched = [_marked_like(x.view_as(x), x) if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
        result = compute(*watched)
        entry = self._entry(kind, function)

        def weighed(out: Any) -> Any:
            if not (isinstance(out, Tensor) and out.requires_grad):
                return out
            held = self._hold(out)
            out = out.clone() if apart else out
            of_view = out._is_view() and any(out._base is x._base for x in watched if isinstance(x, Tensor))
            on_gradient(out, partial(self._add_held, entry, held=held), of_view=of_view)
            return out

        if type(result) in (tuple, list):
            result = type(result)(weighed(out) for out in result)
        elif isinstance(result, Tensor):
            result = _marked_like(weighed(result), result)
        for x, original in zip(watched, inputs, strict=True):
            if x is not original:
                on_gradient(x, partial(self._add_held, entry, held=self._hold(original), sign=-1), of_view=True)
        return result

    def before_writing(self, x: Any) -> None:
        """The model is about to change `x` in place: copy what is still to be weighed."""
        if isinstance(x, Tensor):
            for reference in self._held.pop(x.untyped_storage().data_ptr(), ()):
                if (held := reference()) is not None:
                    held.value = held.value.clone()

    # -- reading ---------------------------------------------------------------------------------------------

    def by_kind(self) -> dict[str, Tensor]:
        """Per kind, one amount per example."""
        totals: dict[str, Tensor] = {}
        for entry, amount in self.amounts.items():
            totals[entry.kind] = totals[entry.kind] + amount if entry.kind in totals else amount
        return totals

    @property
    def is_split(self) -> bool:
        """Whether every amount could be given to an example."""
        return not any(bool((amount != 0).any()) for amount in self.unsplit.values())

    # -- inside ----------------------------------------------------------------------------------------------

    def _hold(self, x: Tensor) -> _Held:
        held = _Held(x)
        self._held.setdefault(x.untyped_storage().data_ptr(), []).append(weakref.ref(held))
        return held

    def _add_held(self, entry: Entry, grad: Tensor, held: _Held, sign: int = 1) -> None:
        self._add(entry, grad, held.value, sign)

    def _entry(self, kind: str, function: str) -> Entry:
        entry = Entry(kind, function, self._layer() if self._names else "")
        self.calls[entry] += 1
        return entry

    def _layer(self) -> str:
        """Name of the innermost module of the model that is running now, read off the call stack.

        A look at the stack instead of module hooks: hooks would change the user's model.
        """
        frame: FrameType | None = sys._getframe(3)
        while frame is not None:
            owner = frame.f_locals.get("self")
            if isinstance(owner, nn.Module) and id(owner) in self._names:
                return self._names[id(owner)]
            frame = frame.f_back
        return ""

    def _add(self, entry: Entry, grad: Tensor, value: Tensor, sign: int = 1) -> None:
        with torch.no_grad(), torch._C.DisableTorchFunction():
            rows = _inner(grad, value)
            if entry.kind == "position" and tuple(grad.shape[:2]) == (self.examples, self.length) and rows.dim() == 3:
                token = widened(rows).sum(-1)
                self.positions = token if self.positions is None else self.positions + token
            amount = sign * self._per_example(rows, grad)
            books = self.amounts if amount.dim() else self.unsplit
            books[entry] = books[entry] + amount if entry in books else amount

    def _per_example(self, rows: Tensor, grad: Tensor) -> Tensor:
        """The sum over everything but the examples; a scalar where they can't be told apart."""
        wide = torch.float64 if rows.device.type != "mps" else torch.float32
        axis = self._axis(rows, grad)
        if self.examples == 1:
            return rows.sum(dtype=wide).reshape(1)
        if axis is None:
            return rows.sum(dtype=wide)
        if isinstance(axis, str):  # the first axis holds examples and something else folded into one
            return rows.reshape(self.examples, -1).sum(1, dtype=wide)
        return rows.movedim(axis, 0).reshape(self.examples, -1).sum(1, dtype=wide)

    def _axis(self, rows: Tensor, grad: Tensor) -> int | str | None:
        """Which axis holds the examples: the first of the right size, or the first axis with others folded in."""
        shape, n = grad.shape[: rows.dim()], self.examples
        if not shape:
            return None
        if shape[0] == n:
            return 0
        if len(shape) > 1 and shape[1] == n and (shape[0] % n or shape[0] == self.length):
            return 1
        return "leading" if shape[0] % n == 0 else None


def _marked_like(copy: Tensor, original: Tensor) -> Tensor:
    """`copy` stands for `original`: it carries the same marks."""
    if copy is not original:
        for mark in ("_whence_origin", "_whence_role"):
            if (value := getattr(original, mark, None)) is not None:
                setattr(copy, mark, value)
    return copy


def _inner(grad: Tensor, value: Tensor) -> Tensor:
    """grad · value, summed over the last axis where that saves a pass over the data."""
    grad, value = widened(grad), widened(value)
    if value.dim() == 1 and value.shape[0] == grad.shape[-1] and value.dtype == grad.dtype and grad.dim() > 1:
        value = value.nan_to_num(nan=torch.nan, posinf=0.0, neginf=0.0)  # -inf masks the place: its gradient is 0
        return torch.mv(grad.reshape(-1, grad.shape[-1]), value).reshape(grad.shape[:-1])
    product = (grad.conj() * value).real if torch.is_complex(grad) else grad * value
    return product.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)  # a mask of -inf meets a gradient of 0
