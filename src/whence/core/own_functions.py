"""Functions of a model's own that torch runs out of the mode's sight.

A `torch.autograd.Function`: `apply` goes past the mode. While anybody explains, another stands in its place: it asks
the mode of its own thread, if there is one, and is gone afterwards. The function may be an activation, or a softmax.
Any other is run as its `forward` reads, line by line, with gradients: what its author wrote for the backward pass may
be an approximation (YOSO's), or be for training alone (Reformer's). Where that leads nowhere (a kernel), it runs as it
is, and the receipt names it. So does one whose `apply` somebody took before, and one that writes into its input: that
can't be tried out.

A function that `torch.jit.script` compiled: it keeps the Python that it was made of, which is run in its place.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from whence.core.backward import with_slope_now
from whence.core.call import Call, is_tainted, mark_origin, mark_role, role_of

__all__ = ["LineByLine", "Watched", "are_shares", "as_activation", "body_of", "writes_into_input"]

Handler = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""A function's name, the function, and its arguments, to its value."""
OURS = ("torch.", "whence.")
"""Modules whose functions are part of the machinery: checkpoints, our own gradients."""


COMPILED = torch.jit.ScriptFunction
PYTHON = "_torchdynamo_inline"
"""Where a compiled function keeps what it was made of."""


class Watched:
    """`Function.apply`, and calls of what is compiled, while they are watched: one replacement for all threads, as long
    as anybody needs it."""

    def __init__(self, handler: Callable[[], Handler | None]):
        self.handler = handler
        """Asked at every call, in the thread of the call: who looks at it there."""
        self.lock, self.users = threading.Lock(), 0
        self.original: Any = None
        self.compiled: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                self.original = torch.autograd.Function.__dict__["apply"]
                self.compiled = COMPILED.__call__
                torch.autograd.Function.apply = classmethod(self._replacement())  # type: ignore[assignment,method-assign]
                COMPILED.__call__ = self._in_python()  # type: ignore[method-assign]
            self.users += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                torch.autograd.Function.apply = self.original  # type: ignore[method-assign]
                COMPILED.__call__ = self.compiled  # type: ignore[method-assign]

    def _replacement(self) -> Callable[..., Any]:
        original, handler = self.original, self.handler

        def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
            run = original.__get__(None, cls)
            handle = None if f"{cls.__module__}.".startswith(OURS) else handler()
            return run(*args, **kwargs) if handle is None else handle(cls.__name__, run, args, kwargs)

        return apply

    def _in_python(self) -> Callable[..., Any]:
        compiled, handler = self.compiled, self.handler

        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            source = getattr(function, PYTHON, None)
            run = compiled.__get__(function) if source is None or handler() is None else source
            return run(*args, **kwargs)

        return call


class _Context:
    """What a function's `forward` may ask of its context, where nobody will go back over it."""

    def __init__(self, args: tuple[Any, ...]):
        self.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def _nothing(self, *_: Any) -> None:
        """Nothing to note."""

    save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = _nothing


UNSEEN = frozenset("data_ptr empty empty_like empty_strided new_empty".split())
"""What code asks for whose memory a kernel is to read or write."""


class LineByLine:
    """Runs functions of a model's own as if their forward pass stood in the model, and is told what happens in them."""

    def __init__(self) -> None:
        self.depth = 0
        """How many are being run: in these, gradients are never off."""
        self._as_they_are: set[Any] = set()
        """Those that can't be."""
        self._kernel = False
        """Whether the one that is run hands memory to a kernel: what comes back is no constant, though it looks so."""
        self._constants: list[Any] = []
        """What torch made in the one that is run out of nothing that carries relevance: these are constants."""

    def saw(self, name: str) -> None:
        """A function that is called meanwhile."""
        self._kernel |= name in UNSEEN

    def made(self, out: Any) -> None:
        """What came of one that had nothing that carries relevance."""
        self._constants += out if isinstance(out, (tuple, list)) else [out]

    def run(self, function: Any, args: tuple[Any, ...]) -> Any:
        """What the function gives; None where that leads nowhere, and it has to run as it is."""
        body = body_of(function)
        if body is None or function in self._as_they_are:
            return None
        state, around = torch.get_rng_state(), (self._kernel, self._constants)
        self.depth, self._kernel, self._constants = self.depth + 1, False, [*args]
        try:
            out = body(*args)
        except Exception:  # it wants more of its context than there is
            out = None
        finally:
            kernel, constants = self._kernel, self._constants
            self._kernel, self._constants = around
            self.depth -= 1
        made = [o for o in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(o, Tensor)]
        differentiable = [o for o in made if o.is_floating_point()]
        known = all(is_tainted(o) or any(o is c for c in constants) for o in differentiable)
        if any(map(is_tainted, differentiable)) and known and not kernel:
            return out
        self._as_they_are.add(function)  # a part of it came out of a kernel
        torch.set_rng_state(state)
        return None


def body_of(function: Any) -> Callable[..., Any] | None:
    """What a function does in its forward pass, of the arguments of `apply`; None where it is no class."""
    if not isinstance(function, type):
        return None
    forward: Callable[..., Any] = function.forward  # type: ignore[attr-defined]
    plain = torch.autograd.Function.setup_context
    if getattr(function, "setup_context", plain) is not plain:  # the newer way: no context
        return forward
    return lambda *args: forward(_Context(args), *args)


def writes_into_input(function: Any) -> bool:
    """Whether a function's code says that it changes a tensor it is given (`mark_dirty`)."""
    parts = (getattr(function, name, None) for name in ("forward", "setup_context"))
    codes = (getattr(inspect.unwrap(part), "__code__", None) for part in parts if part is not None)
    return any(code is not None and "mark_dirty" in code.co_names for code in codes)


def as_activation(call: Call) -> Tensor | None:
    """f(0) + [(f(x) - f(0)) / x] · x, for a function of one tensor that works on each of its elements alone; else None.

    Whether it does is tried out: with some elements set to zero, the others must not notice.
    """
    inputs = call.tainted()
    x = inputs[0]
    if len(inputs) != 1 or call.args[0] is not x:
        return None
    with torch.no_grad(), torch._C.DisableTorchFunction():
        y, at_zero = call.at(x.detach()), call.at(torch.zeros_like(x))
        if not _is_like(y, x) or not _is_like(at_zero, x) or not bool(y.isfinite().all() & at_zero.isfinite().all()):
            return None
        for keep in _halves(x):
            mixed = call.at(torch.where(keep, x.detach(), 0.0))
            if not torch.allclose(mixed, torch.where(keep, y, at_zero), rtol=1e-5, atol=1e-7):
                return None
    tiny = torch.finfo(x.dtype).eps
    out = with_slope_now(x, lambda x: y, lambda x, y: torch.where(x.abs() > tiny, (y - at_zero) / x, 0.0))
    small = torch.where(x.detach().abs() > tiny, at_zero, y)  # next to zero there is no slope to tell
    call.book("constant", out, small)
    mark_origin(out, x, linear=False)
    mark_role(out, "gate" if role_of(x) is None else role_of(x))
    return out


def are_shares(out: Any) -> bool:
    """Whether each row sums to one (or to nothing, masked) and holds nothing negative: a softmax, whatever its name."""
    if not isinstance(out, Tensor) or not out.is_floating_point() or not out.dim() or out.shape[-1] < 2:
        return False
    with torch.no_grad(), torch._C.DisableTorchFunction():
        sums = out.sum(-1, dtype=torch.float32)
        close = (sums - 1).abs() < out.shape[-1] * torch.finfo(out.dtype).eps + 1e-5
        return bool((out >= 0).all() & (close | (sums == 0)).all() & close.any())


def _is_like(y: Any, x: Tensor) -> bool:
    return isinstance(y, Tensor) and y.shape == x.shape and y.dtype == x.dtype and not is_tainted(y)


def _halves(x: Tensor) -> list[Tensor]:
    """Two ways to take half of the elements: every other one, and by chance."""
    numbers = torch.arange(x.numel(), device=x.device)
    return [(numbers % 2 == 0).view(x.shape), (numbers * 0.6180339887 % 1 < 0.5).view(x.shape)]
