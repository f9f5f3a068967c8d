"""The mode that sees every torch function a model calls and hands it to its rule.

Nothing in the model is changed, and of torch `Function.apply` alone, while it lasts (`own_functions`). The mode is
thread-local, ends with its `with` block, and parameters are detached where they are used, so that `requires_grad` marks
exactly the tensors through which relevance can reach an input (the *taint*).

There is one mode. What a pass does lies in its table of rules: propagation, capture, replacement and weighing differ
in nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import _get_sequence_nr  # type: ignore[attr-defined]
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode,
    _get_current_function_mode_stack,
    _pop_mode_temporarily,
)

from whence.core import trail
from whence.core.batch import Batch
from whence.core.call import (
    Call,
    Rule,
    Table,
    forget_value,
    is_tainted,
    mark_role,
    mark_table,
    role_of,
    same_marks,
    table_of,
    tensors_in,
)
from whence.core.layout import Lane, Layout, follow, layout_of, mark_layout
from whence.core.ledger import NoLedger
from whence.core.naming import name_of, out_of_place
from whence.core.numerics import widened
from whence.core.own_functions import Handler, LineByLine, Watched, are_shares, as_activation, writes_into_input
from whence.core.recipe import Recipe
from whence.errors import ModelError

__all__ = ["PLAIN", "Change", "Interception", "Leaf", "as_it_is", "unseen", "watched"]

PLAIN = Recipe("plain")
"""For tables that ask nothing of a recipe."""

# Asked for a thousand times in a forward pass, and nothing to do with relevance.
PASSED = frozenset(
    "size dim numel stride is_floating_point is_complex is_contiguous data_ptr element_size get_device "
    "storage_offset ndimension nelement is_tensor _set_grad_enabled is_cuda register_hook requires_grad "
    "len item tolist numpy is_inference has_names is_same_size untyped_storage set backward "
    "retain_grad hash repr format bool is_nonzero _is_view".split()
)
CHANGES = frozenset("add sub rsub copy setitem index_add index_copy scatter scatter_add masked_scatter".split())
"""Written in place, these make another value: x += y is no longer what x was."""
LOOKUPS = frozenset({"embedding", "getitem", "index_select"})


@dataclass(frozen=True)
class Leaf:
    """Where the backward pass ends: a looked-up embedding or a float input."""

    source: str
    tensor: Tensor
    positions: Tensor | None
    """For a lookup: which element of the source each vector was looked up for (-1: none)."""
    layout: Layout | None = None
    whole: bool = True
    """Whether there is no -1 among the positions."""
    stage: int = 0
    """How far the forward pass was, where the ledger counts."""


Change = Callable[[Leaf, int], Tensor]
"""The value a leaf shall have, from the leaf as the model made it and its number among the leaves."""


def as_it_is(call: Call) -> Any:
    """The rule of a function that is only looked at."""
    return call.run()


as_it_is.in_place_is_fine = True  # type: ignore[attr-defined]


class _Active(threading.local):
    """The interceptions of this thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[Interception] = []


_active = _Active()


class Interception(TorchFunctionMode):
    """Runs a model on a batch under a table of rules.

    `prepared()` gives the inputs to run it with: ids know their places, so that their lookups become leaves, and float
    inputs are leaves themselves.
    """

    def __init__(
        self,
        batch: Batch,
        rules: Mapping[str, Rule],
        *,
        recipe: Recipe = PLAIN,
        default: Rule | None = None,
        ledger: NoLedger | None = None,
        change: Change | None = None,
        everywhere: bool = False,
        follows: tuple[str, ...] = (),
        wide: bool = False,
    ):
        super().__init__()
        self.batch = batch
        self.rules = rules
        self.recipe = recipe
        self.default = default
        """For functions that are not in the table; without one they keep their gradient and are reported."""
        self.ledger = ledger or NoLedger()
        self.change = change
        """Gives leaves another value than the model's own, for gradients along a path or under noise."""
        self.everywhere = everywhere
        """Whether rules apply to calls that carry no relevance as well."""
        self.follows = follows
        """What is followed through the model: "examples", and the sources whose tokens are."""
        self.wide = wide
        """Whether half precision is computed in float32: relevance that is divided and summed in it is noise."""
        self.leaves: list[Leaf] = []
        self.unruled: dict[str, int] = {}
        self.in_target = False
        """The model is done, and the caller computes the score."""
        self.in_backward = False
        self.recomputes = False
        """Whether a part ran without gradients in the forward pass: reentrant checkpointing runs it again."""
        self.gaps: list[tuple[int, int]] = []
        """Numbers of autograd nodes that something made between our calls, as ranges: the mode was bypassed there."""
        self.transformed = False
        """Whether `torch.vmap` or the like was at work: its tensors do not say that they carry relevance."""
        self.opened: set[int] = set()
        """Layers of the model that are changed until the end, by their ids."""
        self.at_exit = ExitStack()
        """What is put back when the interception ends."""
        self.with_own_gradient: set[str] = set()
        """Functions of the model's own that go back as their author wrote."""
        self._depth, self._last = 0, -1
        self._lines = LineByLine()

    # -- as a context ----------------------------------------------------------------------------------------

    def __enter__(self) -> Interception:
        _active.stack.append(self)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        _active.stack.pop()
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if self not in _active.stack:  # rules enter it again
            self.opened.clear()
            self.at_exit.close()

    def close(self) -> None:
        """Forget the leaves: the mode itself may live until the garbage collector comes."""
        self.leaves = []

    # -- inputs ----------------------------------------------------------------------------------------------

    def prepared(self) -> dict[str, Any]:
        """The inputs of the batch, those that are explained as beginnings of trails and as leaves."""
        made = dict(self.batch.inputs)
        for name in self.batch.names:
            value = made[name]
            if value.is_inference():
                value = value.clone()
            layout = self._laid_out(name, value)
            made[name] = (
                self.leaf(name, value, layout=layout) if value.is_floating_point() else trail.begin(name, value)
            )
            mark_layout(made[name], layout)
        return made

    def _laid_out(self, name: str, value: Tensor) -> Layout | None:
        axes = {"examples": 0, name: 1}
        lanes = [axes.get(what, value.dim()) for what in self.follows]
        return (
            tuple(
                Lane(axis, 1, value.shape[axis]) if axis < value.dim() and value.shape[axis] > 1 else None
                for axis in lanes
            )
            or None
        )

    def leaf(
        self,
        source: str,
        value: Tensor,
        positions: Tensor | None = None,
        layout: Layout | None = None,
        *,
        whole: bool = True,
    ) -> Tensor:
        """Make `value` an end of the backward pass. Returns a copy that in-place operations may change."""
        with torch._C.DisableTorchFunction():  # in our own eyes the leaf would be a parameter
            value = widened(value.detach()) if self.wide else value.detach()
            if self.change is not None:
                value = self.change(Leaf(source, value, positions), len(self.leaves)).detach()
            leaf = value.requires_grad_()
            self.leaves.append(Leaf(source, leaf, positions, layout, whole, self.ledger.stage))
            copy = leaf.clone()
            mark_layout(copy, layout)
            self._last = _get_sequence_nr()
            return copy

    # -- every call ------------------------------------------------------------------------------------------

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name, inplace = name_of(func)
        # The backward pass of a GPU runs in a thread of its own, which has the mode and no stack.
        inner = _active.stack[-1] if _active.stack else self
        if self._lines.depth:
            self._lines.saw(name)
        if name in PASSED or inner is not self or (self.in_backward and not torch.is_grad_enabled()):
            return func(*args, **kwargs)
        if self._lines.depth and not torch.is_grad_enabled():
            with torch.enable_grad():
                return self.__torch_function__(func, types, args, kwargs)
        if name == "get":
            return self._property(func, args)
        if name == "to" and isinstance(args[0], nn.Parameter):  # weights are brought: they stay weights
            moved = func(*args, **kwargs)
            return moved if moved is args[0] else nn.Parameter(moved.detach(), requires_grad=args[0].requires_grad)
        args, kwargs, tainted = self._own(args, kwargs, inplace)
        if not tainted:
            out = (self._everywhere if self.everywhere else self._untainted)(func, name, args, kwargs)
            if self._lines.depth:
                self._lines.made(out)
            return out
        if not torch.is_grad_enabled():
            self.recomputes = True
        call = Call(func, name, args, kwargs, self)
        if self._depth or not self.ledger.active:
            return self._followed(call, self._ruled(call, inplace))
        now = _get_sequence_nr()
        if now != self._last >= 0:
            self.gaps.append((self._last, now))
        self._depth = 1
        try:
            return self._followed(call, self._ruled(call, inplace))
        finally:
            self._depth, self._last = 0, _get_sequence_nr()

    def _ruled(self, call: Call, inplace: bool) -> Any:
        rule = self.rules.get(call.name, self.default)
        if rule is None:
            return self.without_rule(call)
        writes = inplace or bool(call.kwargs.get("inplace"))
        if not writes:
            return rule(call)
        self.ledger.held.before_writing(call.argument(0, "input"))
        fine = getattr(rule, "in_place_is_fine", False)
        if not inplace:  # F.silu(x, inplace=True)
            return rule(call) if fine else self._in_place(call, rule)
        rest = _rest_of_base(call.args[0]) if self.ledger.active else None
        if fine:
            if call.name in CHANGES:
                forget_value(call.args[0])
            out = rule(call)
        else:
            out = self._in_place(call, rule)
        self._place_base(call, out)
        if rest is not None:
            call.book("constant", call.args[0]._base, rest)
        return out

    def _followed(self, call: Call, out: Any) -> Any:
        """The result of a call, marked with where the examples lie in it."""
        if not self.follows:
            return out
        if call.name == "setitem":
            self.place_written(call)
        for o in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(o, Tensor) and layout_of(o) is None:
                mark_layout(o, follow(call.name, call.args, call.kwargs, o))
        return out

    def _place_base(self, call: Call, out: Any) -> None:
        """A part of a constant was written: the whole of it is laid out as the part is."""
        base = out._base if self.follows and isinstance(out, Tensor) else None
        if base is not None and layout_of(base) is None:
            mark_layout(out, follow(call.name, call.args, call.kwargs, out))
            with torch._C.DisableTorchFunction():
                mark_layout(base, follow("view", (out,), {}, base.view_as(base)))

    def place_written(self, call: Call) -> None:
        """x[index] = value: what held constants is laid out as what was written into it."""
        target, index, value = call.args
        if self.follows and layout_of(target) is None and isinstance(value, Tensor):
            with torch._C.DisableTorchFunction():
                part = target[index]
            inner = follow("where", (value,), {}, part)  # broadcast, as in any elementwise function
            if inner is not None:
                mark_layout(part, inner)
                mark_layout(target, follow("view", (part,), {}, target.view_as(target)))

    def own_function(self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A `torch.autograd.Function` of the model's own: an activation has its slope, a softmax is one, and others
        are run line by line."""
        if self._depth or not (torch.is_grad_enabled() or self._lines.depth) or self.recipe.activation != "slope":
            self.with_own_gradient.add(name)
            return func(*args, **kwargs)
        own, options, tainted = self._own(args, kwargs, False)
        if not tainted:
            return func(*args, **kwargs)
        with torch.enable_grad():
            if writes_into_input(getattr(func, "__self__", None)):
                return self._as_it_is(func, args, kwargs)
            out = self._activated(Call(func, name, own, options, self))
            if out is None and not kwargs and not self.in_target:
                out = self._lines.run(getattr(func, "__self__", None), args)
            return self._as_it_is(func, args, kwargs) if out is None else out

    def _activated(self, call: Call) -> Any:
        """The value of an activation of the model's own, with its slope; None where it is none."""
        now = _get_sequence_nr()
        self._depth = 1
        try:
            out = as_activation(call)
            if out is None:
                return None
            if self.ledger.active and now != self._last >= 0:
                self.gaps.append((self._last, now))
            self._last = _get_sequence_nr() if self._last >= 0 else -1
            return self._followed(call, out)
        finally:
            self._depth = 0

    def _as_it_is(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._depth = 1
        try:
            out = func(*args, **kwargs)
        finally:
            self._depth = 0
        if not self.in_target and are_shares(out):
            mark_role(out, "probability")
        return out

    # -- the cases -------------------------------------------------------------------------------------------

    def _own(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], inplace: bool
    ) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
        """Detach every leaf that is not ours (parameters), and say whether anything tainted is left."""
        tainted = foreign = narrow = False
        for t in tensors_in(args, kwargs):
            foreign = foreign or _cannot_be_kept(t)
            narrow = narrow or (self.wide and t.dtype in (torch.float16, torch.bfloat16))
            if t.requires_grad:
                if self._is_foreign(t):
                    foreign = True
                else:
                    tainted = True
        if not foreign and not (narrow and tainted):
            return args, kwargs, tainted
        call = Call(_nothing, "", args, kwargs, self).mapped(self._detached)
        if narrow and tainted:
            kept = call.args[:1] if inplace else ()  # what is written into stays what it is
            call = call.mapped(lambda t: same_marks(widened(t), t))
            return (*kept, *call.args[len(kept) :]), call.kwargs, tainted
        return call.args, call.kwargs, tainted

    def _is_foreign(self, t: Tensor) -> bool:
        # While a checkpointed segment is recomputed in the backward pass, its inputs are leaves of their own.
        # Replaced attention is given by the caller, whose tensors are leaves too.
        return isinstance(t, nn.Parameter) if self.in_backward or self.everywhere else t.is_leaf

    def _detached(self, t: Tensor) -> Tensor:
        constant = _as_constant(t) if t.requires_grad and self._is_foreign(t) else t
        if not _cannot_be_kept(t):
            return constant
        copy = same_marks(constant.clone(), t)  # of the constant: a copy of a parameter would carry relevance
        mark_table(copy, table_of(constant))
        return copy

    def _property(self, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        out = func(*args)
        if isinstance(out, Tensor) and isinstance(args[0], Tensor):
            if args[0].requires_grad and self._is_foreign(args[0]):
                return _as_constant(out)
            if self.follows:
                mark_layout(out, follow("get", args, {}, out))
            mark_role(out, role_of(args[0]))
            mark_table(out, table_of(args[0]))
            self._last = _get_sequence_nr() if self._last >= 0 else -1
        return out

    def _everywhere(self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = Call(func, name, args, kwargs, self)
        return self._followed(call, self.rules.get(name, as_it_is)(call))

    def _untainted(self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in LOOKUPS:
            index = kwargs.get("input", args[0] if args else None) if name == "embedding" else _index(args, kwargs)
            table = kwargs.get("weight", args[1] if len(args) > 1 else None) if name == "embedding" else args[0]
            if isinstance(table, Tensor) and (table.is_floating_point()):
                return self._lookup(name, index, table, func(*args, **kwargs))
        if self.ledger.active and name_of(func).inplace:
            self.ledger.held.before_writing(args[0])
        out = func(*args, **kwargs)
        if self.ledger.active and peek_interpreter_stack() is not None:
            self.transformed = True
        if isinstance(out, Tensor):
            if not out.is_floating_point():
                trail.follow(func, name, args, kwargs, out)
                self._follow_ids(name, args, kwargs, out)
            else:
                self._mark_constant(name, args, kwargs, out)
        elif isinstance(out, (tuple, list)):
            trail.follow(func, name, args, kwargs, out)
        elif out is None and name == "setitem":
            trail.follow(func, name, args, kwargs, args[0])
        return out

    def _follow_ids(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        if not self.follows or out.dtype == torch.bool:
            return
        if name == "arange" and out.dim() == 1 and out.shape[0] == self.batch.examples > 1:
            mark_layout(out, (Lane(0, 1, self.batch.examples), *[None] * (len(self.follows) - 1)))
        else:
            mark_layout(out, follow(name, args, kwargs, out))

    def _mark_constant(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        """What a constant was computed from: a table stays one when it is moved, cut, scaled or added to."""
        for t in tensors_in(args, kwargs):
            if role_of(t) == "probability" and out.numel() == t.numel():
                mark_role(out, "probability")
                return
            table = table_of(t)
            if table is not None and name not in PRODUCTS and out.numel() * max(1, t.shape[0]) >= t.numel():
                mark_table(out, table)
                return

    def _lookup(self, name: str, index: Any, table: Tensor, out: Tensor) -> Tensor:
        found = trail.trail_of(index)
        if found is not None and found.source in self.batch.looked_up:
            out = self._exchanged(name, index, table, found.source, found.places)
        if found is not None and torch.is_grad_enabled():
            layout = follow("embedding", (index,), {}, out) if self.follows else None
            return self.leaf(found.source, out, found.places, layout, whole=found.whole)
        if name == "embedding":
            mark_table(out, Table(index if isinstance(index, Tensor) else None))
        else:
            mark_table(out, table_of(table))
        return out

    def _exchanged(self, name: str, index: Tensor, table: Tensor, source: str, positions: Tensor) -> Tensor:
        """What is looked up for other ids than those of the input."""
        known, places = positions >= 0, positions.clamp_min(0)
        own, others = (t.reshape(-1)[places] for t in (self.batch.inputs[source], self.batch.looked_up[source]))
        if not bool(((index == own) | ~known).all()):
            raise ModelError(
                "the model computes with its ids before it looks them up, so that they can't be exchanged there. "
                "Fill with another token than the padding token: fill='mask'"
            )
        index = torch.where(known, others, index)
        return torch.nn.functional.embedding(index, table) if name == "embedding" else table[index]

    def _in_place(self, call: Call, rule: Rule) -> Any:
        """x.mul_(y) under a rule: the rule works on a copy, the result is written into x."""
        target = call.argument(0, "input")
        copy = same_marks(target.clone(), target)
        options = {k: v for k, v in call.kwargs.items() if k not in ("inplace", "input")}
        func = out_of_place(call.func) if call.is_in_place else call.func
        made = rule(Call(func, call.name, (copy, *call.args[1:]), options, self))
        forget_value(target)
        return same_marks(target.copy_(made), made)

    def without_rule(self, call: Call) -> Any:
        """Leave the function its own gradient; book the difference and remember the name."""
        # a watched view of an argument can't be written into
        out = call.run() if call.is_in_place else call.measured("unruled")
        if any(is_tainted(o) for o in (out if isinstance(out, (tuple, list)) else [out])):
            self.unruled[call.name] = self.unruled.get(call.name, 0) + 1
        return out


def _own_functions_seen() -> Handler | None:
    # As above: the thread of a GPU's backward pass has the mode and no stack.
    mode = _active.stack[-1] if _active.stack else _get_current_function_mode()
    return mode.own_function if isinstance(mode, Interception) else None


watched = Watched(_own_functions_seen)
"""Functions of a model's own are seen by the mode of their thread."""


@contextmanager
def unseen() -> Iterator[None]:
    """What is called meanwhile, in this thread, is no mode's affair, and neither are functions of somebody's own."""
    stack, _active.stack = _active.stack, []
    try:
        with ExitStack() as modes:
            for _ in _get_current_function_mode_stack():
                modes.enter_context(_pop_mode_temporarily())
            yield
    finally:
        _active.stack = stack


PRODUCTS = frozenset("linear matmul mm bmm mv einsum conv1d conv2d conv3d addmm baddbmm".split())
"""A table that is multiplied with is a weight, and what comes out is no table."""


def _rest_of_base(target: Any) -> Tensor | None:
    """What lies beside `target` in the constant that it is a part of: tainted once something is written into it."""
    if not isinstance(target, Tensor) or target.requires_grad or not target._is_view():
        return None
    base = target._base
    if base is None or not base.is_floating_point() or base.numel() == target.numel():
        return None
    with torch.no_grad():
        rest = torch.empty_strided(base.shape, base.stride(), dtype=base.dtype, device=base.device).copy_(base)
        rest.as_strided(target.shape, target.stride(), target.storage_offset() - base.storage_offset()).zero_()
    return rest


def _as_constant(parameter: Tensor) -> Tensor:
    """A parameter, detached. Added rather than multiplied, one of several vectors is a table of learned positions."""
    plain = parameter.detach()
    if sum(size > 1 for size in plain.shape) > 1:
        mark_table(plain, Table())
    return plain


def _cannot_be_kept(t: Tensor) -> bool:
    """Whether autograd refuses to keep this tensor: it was made in inference mode, and we are not in it."""
    return t.is_inference() and t.is_floating_point() and torch.is_grad_enabled()


def _nothing() -> None:
    return None


def _index(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The index of `table[index]` or `index_select(table, 0, index)`."""
    return kwargs.get("index", args[-1] if len(args) > 1 else None)
