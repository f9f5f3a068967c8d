"""The ledger: where every unit of relevance went.

In a gradient recipe the relevance of a tensor x is Σ x · ∂f/∂x. A function that is linear in the tensors that
carry relevance hands on what it gets. Whatever else happens is an entry here:

- a *constant* c joins additively (a bias, a position, a mask value): it keeps Σ c · ∂f/∂y;
- a function is left with its ordinary gradient by the recipe (softmax, activation, …): the difference between
  what came in and what went out is *measured*;
- a function has no rule: measured too, under the kind "unruled". These are what breaks conservation.

Entries are per example; `layout` says where the examples lie in a tensor. Amounts in tensors whose layout is not known
are kept apart (`unsplit`), so that the caller can go back to single examples.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from whence.core.backward import on_gradient
from whence.core.call import Table, same_marks
from whence.core.holding import Held, Holding
from whence.core.layout import Layout, examples_first, layout_of, summed
from whence.core.numerics import all_finite, wide_of, widened

__all__ = ["Entry", "Ledger", "NoLedger"]

AT_ONCE = ("cuda",)
"""Devices that had better add the gradients of an example up before they meet a vector."""


class Entry(NamedTuple):
    """What kind of absorption, at which function, in which module (empty unless modules are wanted), and at which stage
    of the forward pass (0 unless somebody counts)."""

    kind: str
    function: str
    module: str
    stage: int = 0


class NoLedger:
    """Keeps no books: every method does what it must for the value and nothing for the account."""

    active = False

    def __init__(self) -> None:
        self.held = Holding()
        self.stage = 0
        """How far the forward pass is, for whoever wants entries told apart by that."""

    def constant(
        self,
        kind: str,
        function: str,
        out: Tensor,
        value: Any,
        layout: Layout | None = None,
        table: Table | None = None,
    ) -> None:
        return

    def measure(
        self,
        kind: str,
        function: str,
        inputs: Sequence[Any],
        compute: Callable[..., Any],
        layout: Callable[[Tensor], Layout | None] = layout_of,
        *,
        apart: bool = False,
    ) -> Any:
        return compute(*inputs)


class Ledger(NoLedger):
    """Books for one forward and backward pass over a batch."""

    active = True

    def __init__(self, examples: int, modules: nn.Module | None = None):
        super().__init__()
        self.examples = examples
        self.calls: dict[Entry, int] = defaultdict(int)
        self.open = True
        self.is_split = True
        """Whether every amount could be given to an example; known once the books are read."""
        self._parts: dict[Entry, list[Tensor]] = defaultdict(list)
        """Amounts per example, as they came in: added up once, at the end."""
        self._mixed: dict[Entry, list[Tensor]] = defaultdict(list)
        self._biases: dict[Entry, list[tuple[int, Tensor, Tensor]]] = defaultdict(list)
        """Sign, gradients added up by example, and the vector that they are to meet."""
        self._few: set[Entry] = set()
        self._by_token: dict[tuple[Entry, int], Tensor] = {}
        self._indices: dict[Entry, Tensor] = {}
        self._names = {id(m): name for name, m in modules.named_modules()} if modules is not None else {}

    # -- entries ---------------------------------------------------------------------------------------------

    def constant(
        self,
        kind: str,
        function: str,
        out: Tensor,
        value: Any,
        layout: Layout | None = None,
        table: Table | None = None,
    ) -> None:
        if value is None or not self.open or not out.requires_grad:
            return
        if not isinstance(value, Tensor):
            if value == 0:
                return
            value = torch.full((), value, dtype=torch.promote_types(out.dtype, torch.float32), device=out.device)
        entry = self._entry(kind, function)
        if kind == "constant" and table is not None and _is_per_token(value, out):
            entry = self._positions(entry, table)
        on_gradient(out, partial(self._add_held, entry, held=self.held.hold(value), layout=layout or layout_of(out)))

    def measure(
        self,
        kind: str,
        function: str,
        inputs: Sequence[Any],
        compute: Callable[..., Any],
        layout: Callable[[Tensor], Layout | None] = layout_of,
        *,
        apart: bool = False,
    ) -> Any:
        """Run `compute(*inputs)` and enter what it takes in less what it hands on.

        `apart` copies the result: needed where `compute` hooks what it returns, for the gradient is weighed before.
        """
        if not self.open or not torch.is_grad_enabled():
            return compute(*inputs)
        watched = [same_marks(x.view_as(x), x) if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
        result = compute(*watched)
        entry = self._entry(kind, function)

        def weighed(out: Any) -> Any:
            if not (isinstance(out, Tensor) and out.requires_grad):
                return out
            held, where = self.held.hold(out), layout(out)
            out = out.clone() if apart else out
            of_view = out._is_view() and any(out._base is x._base for x in watched if isinstance(x, Tensor))
            on_gradient(out, partial(self._add_held, entry, held=held, layout=where), of_view=of_view)
            return out

        if type(result) in (tuple, list):
            result = type(result)(weighed(out) for out in result)
        elif isinstance(result, Tensor):
            result = same_marks(weighed(result), result)
        for x, original in zip(watched, inputs, strict=True):
            if x is not original:
                held = self.held.hold(original)
                weigh = partial(self._add_held, entry, held=held, layout=layout_of(original), sign=-1)
                on_gradient(x, weigh, of_view=True)
        return result

    def looked_up(self, amounts: Tensor, layout: Layout | None) -> None:
        """What vectors that the model looked up for tokens of its own keep: constants like any other."""
        self._enter(Entry("constant", "embedding", ""), amounts, layout)

    def begin_again(self) -> None:
        """For another backward pass over the same graph: what the last one entered is read already."""
        for books in (self._parts, self._mixed, self._biases, self._by_token):
            books.clear()

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def amounts(self) -> dict[Entry, Tensor]:
        """Per entry, one amount per example."""
        self._settle()
        return {entry: _added(parts) for entry, parts in self._parts.items()}

    @property
    def unsplit(self) -> dict[Entry, Tensor]:
        """Per entry, what could not be given to an example."""
        return {entry: _added(parts) for entry, parts in self._mixed.items()}

    def packed(self) -> Tensor:
        """Everything that is read of the books, as one row of numbers: it comes from the device in one piece."""
        found = [*self.amounts.values(), *(a.reshape(1) for a in self.unsplit.values())]
        counts = [_distinct(index).to(wide_of(index.device)) for index in self._indices.values()]
        return torch.cat([*found, *counts]) if found or counts else torch.zeros(0)

    def read(self, numbers: Tensor) -> dict[str, Tensor]:
        """Per kind, one amount per example, from what `packed` gave."""
        size = len(self._parts) * self.examples
        amounts, rest = numbers[:size].view(-1, self.examples), numbers[size:]
        self.is_split = not bool((rest[: len(self._mixed)] != 0).any())
        counts = rest[len(self._mixed) :].tolist()
        pairs = zip(self._indices.items(), counts, strict=True)
        self._few = {entry for (entry, index), count in pairs if index.dim() == 0 or count * 2 <= index.shape[-1]}
        totals: dict[str, Tensor] = {}
        for entry, amount in zip(self._parts, amounts, strict=True):
            kind = self.kind_of(entry)
            totals[kind] = totals[kind] + amount if kind in totals else amount
        return totals

    def kind_of(self, entry: Entry) -> str:
        """Vectors of a table are positions, unless an index chose few of them for many tokens (types, languages)."""
        return "constant" if entry in self._few else entry.kind.partition("#")[0]

    def positions(self, source: int) -> Tensor | None:
        """What position embeddings keep, per token of a source (batch, token), where they are added to the tokens."""
        items = self._by_token.items()
        found = [amount for (entry, of), amount in items if of == source and self.kind_of(entry) == "position"]
        return torch.stack(found).sum(0) if found else None

    # -- inside ----------------------------------------------------------------------------------------------

    def _entry(self, kind: str, function: str) -> Entry:
        entry = Entry(kind, function, self._module() if self._names else "", self.stage)
        self.calls[entry] += 1
        return entry

    def _positions(self, entry: Entry, table: Table) -> Entry:
        """The entry under which a table is booked. What it is depends on the values of its index: read afterwards."""
        if table.chosen_by is None:
            return entry._replace(kind="position")
        own = entry._replace(kind=f"position#{len(self._indices)}")
        self._indices[own] = table.chosen_by
        return own

    def _module(self) -> str:
        """Name of the innermost module of the model that is running now, read off the call stack.

        A look at the stack instead of module hooks: hooks would change the user's model.
        """
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            owner = frame.f_locals.get("self")
            if isinstance(owner, nn.Module) and id(owner) in self._names:
                return str(self._names[id(owner)])
            frame = frame.f_back
        return ""

    def _add_held(self, entry: Entry, grad: Tensor, held: Held, layout: Layout | None, sign: int = 1) -> None:
        self._add(entry, grad, held.value, layout, sign)

    def _add(self, entry: Entry, grad: Tensor, value: Tensor, layout: Layout | None, sign: int = 1) -> None:
        with torch.no_grad(), torch._C.DisableTorchFunction():
            if self._is_bias(entry, grad, value, layout):
                self._biases[entry].append((sign, self._added_up(grad, layout), value))
                return
            rows = _inner(grad, value, layout)
            self._enter(entry, rows, layout, sign)
            if entry.kind.startswith("position") and layout is not None:
                for source, tokens in enumerate(layout[1:]):
                    if tokens is not None:
                        self._add_by_token((entry, source), rows, [a for a in (layout[0], tokens) if a is not None])

    def _enter(self, entry: Entry, rows: Tensor, layout: Layout | None, sign: int = 1) -> None:
        """Add amounts to an entry, split by example."""
        wide = wide_of(rows.device)
        axis = layout[0] if layout else None
        if self.examples == 1:
            amount = rows.sum(dtype=wide).reshape(1)
        elif axis is None or axis.axis >= rows.dim():
            amount = rows.sum(dtype=wide)
        else:
            amount = summed(rows, [axis], wide)
        (self._parts if amount.dim() else self._mixed)[entry].append(sign * amount)

    def _is_bias(self, entry: Entry, grad: Tensor, value: Tensor, layout: Layout | None) -> bool:
        """Whether a vector meets gradients that may be added up first."""
        apart = self.examples == 1 or (layout is not None and layout[0] is not None)
        vector = value.dim() == 1 and grad.dim() > 1 and value.shape[0] == grad.shape[-1] and grad.is_floating_point()
        last = layout is not None and layout[0] is not None and layout[0].axis == grad.dim() - 1
        return grad.device.type in AT_ONCE and vector and apart and not last and not entry.kind.startswith("position")

    def _added_up(self, grad: Tensor, layout: Layout | None) -> Tensor:
        """Σ_t grad_t of each example: one pass over the gradient as it is, in half precision or not."""
        axis = layout[0] if layout and self.examples > 1 else None
        rows = grad.reshape(1, -1, grad.shape[-1]) if axis is None else examples_first(grad, axis)
        return rows.sum(1, dtype=torch.promote_types(grad.dtype, torch.float32))

    def _settle(self) -> None:
        """Biases meet what was added up: all of one size at once."""
        for entry, held in self._biases.items():
            alike: dict[Any, list[tuple[int, Tensor, Tensor]]] = defaultdict(list)
            for sign, total, value in held:
                alike[sign, total.shape, total.dtype, value.dtype].append((sign, total, value))
            for group in alike.values():
                totals = torch.stack([total for _, total, _ in group])
                values = torch.stack([value for _, _, value in group]).to(totals.dtype)
                values = values.nan_to_num(nan=torch.nan, posinf=0.0, neginf=0.0)  # -inf masks: its gradient is 0
                found = torch.einsum("nbh,nh->b", totals, values).to(wide_of(totals.device))
                self._parts[entry].append(group[0][0] * found)
        self._biases.clear()

    def _add_by_token(self, where: tuple[Entry, int], rows: Tensor, axes: list[Any]) -> None:
        found = summed(rows, axes)
        found = found[None] if len(axes) == 1 else found
        self._by_token[where] = self._by_token[where] + found if where in self._by_token else found


def _added(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def _distinct(index: Tensor) -> Tensor:
    """How many values an index has, (1,). `unique` would wait for the device."""
    ordered = index.reshape(-1).sort().values
    return (ordered[1:] != ordered[:-1]).sum().reshape(1) + 1


def _is_per_token(value: Tensor, out: Tensor) -> bool:
    """Whether a table is added along the tokens: (…, token, hidden) to (batch, token, hidden) in any order."""
    wide = [d for d in range(-value.dim(), 0) if value.shape[d] > 1]
    return out.dim() == 3 and len(wide) >= 2 and wide[-1] == -1


def _inner(grad: Tensor, value: Tensor, layout: Layout | None) -> Tensor:
    """grad · value, summed over the last axis where that saves passes over the data and no example lies along it."""
    grad, value = widened(grad), widened(value)
    if value.dim() == 1 and value.shape[0] == grad.shape[-1] and value.dtype == grad.dtype and grad.dim() > 1:
        value = value.nan_to_num(nan=torch.nan, posinf=0.0, neginf=0.0)  # -inf masks the place: its gradient is 0
        return torch.mv(grad.reshape(-1, grad.shape[-1]), value).reshape(grad.shape[:-1])
    product = (grad.conj() * value).real if torch.is_complex(grad) else grad * value
    last = any(axis is not None and axis.axis == product.dim() - 1 for axis in layout or ())
    if product.device.type == "cpu" and product.dim() > 1 and not last:
        rows = product.sum(-1)
        if all_finite(rows):
            return rows
    return product.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)  # a mask of -inf meets a gradient of 0
