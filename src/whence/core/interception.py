"""The mode that sees every torch function a model calls and hands it to its rule.

Nothing in torch and nothing in the model is changed: the mode is thread-local, ends with its `with` block, and
parameters are detached where they are used, so that `requires_grad` marks exactly the tensors through which
relevance can reach an input (the *taint*).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from whence.core.call import Call, Rule, is_tainted, mark_role, role_of, tensors_in
from whence.core.ledger import NoLedger
from whence.core.naming import name_of, out_of_place
from whence.core.recipe import Recipe
from whence.core.trail import follow, provenance_of

__all__ = ["Change", "Interception", "Leaf"]

# Asked for a thousand times in a forward pass, and nothing to do with relevance.
PASSED = frozenset(
    "size dim numel stride is_floating_point is_complex is_contiguous data_ptr element_size get_device "
    "storage_offset ndimension nelement is_tensor _set_grad_enabled is_cuda register_hook requires_grad_ "
    "__len__ len item tolist numpy is_inference has_names is_same_size untyped_storage set_ backward "
    "retain_grad hash repr format bool is_nonzero _is_view".split()
)
LOOKUPS = frozenset({"embedding", "getitem", "index_select"})


@dataclass(frozen=True)
class Leaf:
    """Where the backward pass ends: a looked-up embedding or a float input."""

    source: str
    tensor: Tensor
    positions: Tensor | None
    """For a lookup: which element of the source each vector was looked up for (-1: none)."""


Change = Callable[[Leaf, int], Tensor]
"""The value a leaf shall have, from the leaf as the model made it and its number among the leaves."""


class Interception(TorchFunctionMode):
    """Runs a model under a table of rules.

    `sources` are the integer inputs (token ids) whose lookups become leaves. Float inputs are made leaves by
    the caller, with `Interception.leaf`.
    """

    def __init__(
        self,
        recipe: Recipe,
        rules: Mapping[str, Rule],
        *,
        ledger: NoLedger | None = None,
        default: Rule | None = None,
        change: Change | None = None,
    ):
        super().__init__()
        self.recipe = recipe
        self.rules = rules
        self.default = default
        self.change = change
        """Gives leaves another value than the model's own, for gradients along a path or under noise."""

        self.ledger = ledger or NoLedger()
        self.leaves: list[Leaf] = []
        self.unruled: dict[str, int] = {}
        self.in_backward = False
        self.recomputes = False
        """Whether a part ran without gradients in the forward pass: reentrant checkpointing runs it again."""

    def close(self) -> None:
        """Forget the leaves: the mode itself may live until the garbage collector comes."""
        self.leaves = []

    def leaf(self, source: str, value: Tensor, positions: Tensor | None = None) -> Tensor:
        """Make `value` an end of the backward pass. Returns a copy that in-place operations may change."""
        with torch._C.DisableTorchFunction():  # in our own eyes the leaf would be a parameter
            value = value.detach()
            if self.change is not None:
                value = self.change(Leaf(source, value, positions), len(self.leaves)).detach()
            leaf = value.requires_grad_()
            self.leaves.append(Leaf(source, leaf, positions))
            return leaf.clone()

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name, inplace = name_of(func)
        if name in PASSED or (self.in_backward and not torch.is_grad_enabled()):
            return func(*args, **kwargs)
        if name == "get":
            return self._property(func, args)
        args, kwargs, tainted = self._own(args, kwargs)
        if not tainted:
            return self._untainted(func, name, args, kwargs)
        if not torch.is_grad_enabled():
            self.recomputes = True
        call = Call(func, name, args, kwargs, self)
        rule = self.rules.get(name, self.default)
        if rule is None:
            return self._without_rule(call)
        if inplace or kwargs.get("inplace"):
            self.ledger.before_writing(call.argument(0, "input"))
        if not inplace:
            return self._apply(rule, call)
        rest = _rest_of_base(args[0]) if self.ledger.active else None
        out = self._apply(rule, call) if getattr(rule, "in_place_is_fine", False) else self._in_place(call, rule)
        if rest is not None:
            self.ledger.constant("constant", name, args[0]._base, rest)
        return out

    def _apply(self, rule: Rule, call: Call) -> Any:
        return rule(call)

    # -- the cases -------------------------------------------------------------------------------------------

    def _own(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any], bool]:
        """Detach every leaf that is not ours (parameters), and say whether anything tainted is left."""
        tainted = foreign = False
        for t in tensors_in(args, kwargs):
            if t.requires_grad:
                if self._is_foreign(t):
                    foreign = True
                else:
                    tainted = True
        if not foreign:
            return args, kwargs, tainted
        call = Call(_nothing, "", args, kwargs, self).mapped(self._detached)
        return call.args, call.kwargs, tainted

    def _is_foreign(self, t: Tensor) -> bool:
        # While a checkpointed segment is recomputed in the backward pass, its inputs are leaves of their own.
        return isinstance(t, nn.Parameter) if self.in_backward else t.is_leaf

    def _detached(self, t: Tensor) -> Tensor:
        if not (t.requires_grad and self._is_foreign(t)):
            return t
        plain = t.detach()
        if sum(size > 1 for size in t.shape) > 1:
            mark_role(plain, "position")  # a table that is added rather than multiplied: learned positions
        return plain

    def _property(self, func: Callable, args: tuple) -> Any:
        out = func(*args)
        if isinstance(out, Tensor) and isinstance(args[0], Tensor):
            if args[0].requires_grad and self._is_foreign(args[0]):
                return out.detach()
            if not args[0].requires_grad:
                mark_role(out, role_of(args[0]))
        return out

    def _untainted(self, func: Callable, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        if name in LOOKUPS:
            index = kwargs.get("input", args[0] if args else None) if name == "embedding" else _index(args, kwargs)
            table = kwargs.get("weight", args[1] if len(args) > 1 else None) if name == "embedding" else args[0]
            if isinstance(table, Tensor) and (table.is_floating_point()):
                return self._lookup(name, index, table, func(*args, **kwargs))
        out = func(*args, **kwargs)
        if isinstance(out, Tensor):
            if not out.is_floating_point():
                follow(func, name, args, kwargs, out)
            else:
                for t in tensors_in(args, kwargs):
                    role = role_of(t)
                    if (role == "position" and out.numel() >= t.numel() // max(1, t.shape[0])) or (
                        role == "probability" and out.numel() == t.numel()
                    ):
                        mark_role(out, role)
                        break
        elif isinstance(out, (tuple, list)):
            follow(func, name, args, kwargs, out)
        elif out is None and name == "setitem":
            follow(func, name, args, kwargs, args[0])
        return out

    def _lookup(self, name: str, index: Any, table: Tensor, out: Tensor) -> Tensor:
        found = provenance_of(index)
        if found is not None and torch.is_grad_enabled():
            source, positions = found
            return self.leaf(source, out, positions)
        mark_role(out, "position" if name == "embedding" else role_of(table))
        return out

    def _in_place(self, call: Call, rule: Rule) -> Any:
        """x.mul_(y) under a rule: the rule works on a copy, the result is written into x."""
        target = call.args[0]
        fresh = Call(out_of_place(call.func), call.name, (target.clone(), *call.args[1:]), call.kwargs, self)
        return target.copy_(self._apply(rule, fresh))

    def _without_rule(self, call: Call) -> Any:
        """Leave the function its own gradient; book the difference and remember the name."""
        inputs = call.tainted()

        def compute(*watched: Tensor) -> Any:
            swap = {id(old): new for old, new in zip(inputs, watched, strict=True)}
            return call.mapped(lambda t: swap.get(id(t), t)).run()

        inplace = name_of(call.func).inplace  # a watched view of the argument can't be written into
        out = call.run() if inplace else self.ledger.measure("unruled", call.name, inputs, compute)
        if any(is_tainted(o) for o in (out if isinstance(out, (tuple, list)) else [out])):
            self.unruled[call.name] = self.unruled.get(call.name, 0) + 1
        return out


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


def _nothing() -> None:
    return None


def _index(args: tuple, kwargs: dict[str, Any]) -> Any:
    """The index of `table[index]` or `index_select(table, 0, index)`."""
    return kwargs.get("index", args[-1] if len(args) > 1 else None)
