"""Steps that a backward pass takes at once: a norm's casts and factors, a rotation of queries and keys.

`weight * (x.float() * size).to(x.dtype)` is linear in x, and so is `x * cos + turned(x) * sin`. Autograd would go back
over each step by itself, in a pass over memory of its own. The steps leave marks on what they give; where one completes
a chain that is known here, its result gets a backward pass straight to the chain's beginning. On GPUs alone, where such
passes are what takes the time.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor

from whence.core.call import Call, is_tainted
from whence.core.kernels import triton_kernels
from whence.core.numerics import widened

__all__ = ["STEPS", "shortened"]

MARK = "_whence_chain"
DEVICES = ("cuda",)
"""Where chains are looked for."""
STEPS = frozenset("to float half bfloat16 type_as mul neg getitem cat add".split())


class Scaled(NamedTuple):
    """source · row · column, cast: a number for each row and for each column of the last axis, or none."""

    source: Tensor
    row: Tensor | None = None
    column: Tensor | None = None


class Half(NamedTuple):
    """The first or the second half of the last axis, or what it is against zero."""

    source: Tensor
    second: bool
    negative: bool = False


class Wave(NamedTuple):
    """The source, turned by a quarter ([-second half, first half]) or not, times a constant."""

    source: Tensor
    turned: bool
    factor: Tensor | None = None


def shortened(call: Call, out: Any) -> Any:
    """`out`, or the same values with a backward pass straight to the beginning of the chain that ends here."""
    if not isinstance(out, Tensor) or out.device.type not in DEVICES or not out.requires_grad or call.is_in_place:
        return out
    x = call.args[0] if call.args else None
    if call.name == "add":
        return _rotated(out, _chain(x), _chain(call.argument(1, "other"))) if not call.kwargs else out
    if call.name == "mul":
        return _multiplied(out, x, call.argument(1, "other"))
    if call.name == "cat":
        return _mark(out, _turned(call, _chain_of_all(x), out))
    if call.name == "getitem":
        return _mark(out, _half(x, call.args[1]))
    if call.name == "neg":
        half = _chain(x)
        return _mark(out, half._replace(negative=not half.negative) if isinstance(half, Half) else None)
    if out is x or not isinstance(x, Tensor) or x.device != out.device:
        return out
    known = _chain(x)
    return _scaled(out, known if isinstance(known, Scaled) else Scaled(x), x)


def _chain(x: Any) -> Any:
    """The chain that gave x, unless its beginning is gone, or it or x has been written into since."""
    chain, *versions = getattr(x, MARK, (None,))
    source = None if chain is None else chain.source()
    if source is None or versions != [source._version, x._version]:
        return None
    return chain._replace(source=source)  # type: ignore[union-attr]


def _chain_of_all(tensors: Any) -> list[Any]:
    return [_chain(t) for t in tensors] if isinstance(tensors, (tuple, list)) else []


def _mark(out: Tensor, chain: Any) -> Tensor:
    if chain is not None:  # what is kept of `out` must not keep the beginning of its chain
        setattr(out, MARK, (chain._replace(source=ref(chain.source)), chain.source._version, out._version))
    return out


def _multiplied(out: Tensor, a: Any, b: Any) -> Tensor:
    x, factor = (a, b) if is_tainted(a) else (b, a)
    if not isinstance(factor, Tensor) or factor.requires_grad or not factor.is_floating_point() or not factor.dim():
        return out
    if x.shape != out.shape or factor.device != out.device:
        return out
    known = _chain(x)
    chain = known if isinstance(known, Scaled) else Scaled(x)
    if factor.numel() == factor.shape[-1] == x.shape[-1]:
        return _scaled(out, chain._replace(column=factor) if chain.column is None else Scaled(x, column=factor), x)
    if factor.shape == (*x.shape[:-1], 1):
        return _scaled(out, chain._replace(row=factor) if chain.row is None else Scaled(x, row=factor), x)
    if x.dim() == factor.dim() == 4 and factor.shape[-2:] == x.shape[-2:] and factor.shape[1] == 1:
        turned = isinstance(known, Wave) and known.factor is None
        return _mark(out, Wave(known.source if turned else x, turned, factor))
    return out


def _scaled(out: Tensor, chain: Scaled, x: Tensor) -> Tensor:
    """A step from x on. One that begins a chain is left to autograd."""
    if chain.source is not x and (chain.row is not None or chain.column is not None):
        out = _same(_Scaled.apply(chain.source, out.detach(), chain.row, chain.column), out)  # type: ignore[no-untyped-call]
    return _mark(out, chain)


def _half(x: Any, index: Any) -> Half | None:
    if not isinstance(index, tuple) or len(index) != 2 or index[0] is not Ellipsis or not isinstance(index[1], slice):
        return None
    size = x.shape[-1]
    start, stop, step = index[1].indices(size)
    if step != 1 or 2 * (stop - start) != size or start not in (0, size // 2):
        return None
    return Half(x, start != 0)


def _turned(call: Call, parts: list[Any], out: Tensor) -> Wave | None:
    if len(parts) != 2 or not all(isinstance(p, Half) for p in parts) or call.argument(1, "dim", 0) not in (
        -1, out.dim() - 1
    ):  # fmt: skip
        return None
    first, second = parts
    fits = first.source is second.source and first.second and first.negative and not second.second
    return Wave(first.source, turned=True) if fits and not second.negative else None


def _rotated(out: Tensor, a: Any, b: Any) -> Tensor:
    if not isinstance(a, Wave) or not isinstance(b, Wave) or a.source is not b.source or a.turned == b.turned:
        return out
    straight, turned = (b, a) if a.turned else (a, b)
    if straight.factor is None or turned.factor is None or out.dtype != a.source.dtype:
        return out
    return _same(_Rotated.apply(a.source, out.detach(), straight.factor, turned.factor), out)  # type: ignore[no-untyped-call]


def _same(made: Tensor, out: Tensor) -> Tensor:
    """`made` stands for `out`."""
    for mark, value in vars(out).items():
        if mark.startswith("_whence"):
            setattr(made, mark, value)
    return made


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, row: Tensor | None, column: Tensor | None) -> Tensor:
        ctx.save_for_backward(row, column)
        ctx.dtype = x.dtype
        return value.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        row, column = ctx.saved_tensors
        kernels = triton_kernels("triton_chain") if grad.is_cuda else None
        if kernels is not None and kernels.takes(grad):
            return kernels.scaled(grad, row, column, ctx.dtype), None, None, None
        made = widened(grad)
        for factor in (row, column):
            made = made if factor is None else made * factor
        return made.to(ctx.dtype), None, None, None


class _Rotated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.like = torch.empty_like(x, device="meta")  # size, type and order in memory, without any
        return value.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        out = torch.empty_like(ctx.like, device=grad.device)
        kernels = triton_kernels("triton_chain") if grad.is_cuda else None
        if kernels is not None and kernels.takes(grad):
            kernels.rotated(grad, cos, sin, out)
            return out, None, None, None
        turned = widened(grad) * sin
        first, second = turned.chunk(2, -1)
        out.copy_(widened(grad) * cos + torch.cat((second, -first), -1))
        return out, None, None, None
