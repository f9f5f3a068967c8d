"""Functions that compute what torch computes and differentiate in another way.

Each is a `torch.autograd.Function` used where composing ordinary differentiable operations (a `detach` here, a
product there) would cost an extra pass over the data or keep more memory than needed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor

from whence.core.kernels import triton_kernels
from whence.core.numerics import widened

__all__ = [
    "Gradients",
    "Through",
    "detached_layer_norm",
    "gated_product",
    "on_gradient",
    "scale_gradient",
    "temperature_softmax",
    "with_gradient",
    "with_slope",
    "with_slope_now",
]


Gradients = Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]
"""From x, u, the gradient of f(x) · u and the share of each factor: the gradients of x and u."""


Through = Callable[[Tensor, Tensor], Tensor]
"""From x and the gradient of y to the gradient of x."""


def on_gradient(out: Tensor, hook: Callable[[Tensor], Tensor | None], *, of_view: bool = False) -> None:
    """Call `hook` with the gradient of `out`; what it returns, if anything, takes the gradient's place.

    `Tensor.register_hook` belongs to the tensor object and goes astray when the model changes the tensor in place
    afterwards; the node that made this value stays what it is. A function may return a reshaped view of what it
    computed (`F.linear` does), and the node of a view is replaced when the view is changed in place: there we hook
    what it is a view of, unless the view itself is meant (`of_view`).
    """
    out.__dict__.pop("_whence_chain", None)  # a backward pass that takes several steps at once must stop here
    made, shape = out, out.shape
    base = out._base if out._is_view() and not of_view else None
    if base is not None and base.grad_fn is not None:
        if _same_order(base, out):
            made = base
        elif type(base.grad_fn).__name__ == "CopySlices":  # a part was written: what follows may use the whole alone
            _on_gradient_of_part(base, out, hook)
            return
    node, number = made.grad_fn, made.output_nr
    if node is None:
        return

    def before(grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...] | None:
        grad = grads[number]
        changed = None if grad is None else hook(grad.reshape(shape))
        if changed is None:
            return None
        return (*grads[:number], changed.reshape(made_shape), *grads[number + 1 :])

    made_shape = made.shape
    node.register_prehook(before)


def _on_gradient_of_part(base: Tensor, part: Tensor, hook: Callable[[Tensor], Tensor | None]) -> None:
    """`on_gradient` of a view of `base`, read off the gradient of `base`."""
    shape, strides = base.shape, base.stride()
    place = (part.shape, part.stride(), part.storage_offset() - base.storage_offset())

    def before(grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...] | None:
        if grads[0] is None:
            return None
        whole = torch.empty_strided(shape, strides, dtype=grads[0].dtype, device=grads[0].device).copy_(grads[0])
        changed = hook(whole.as_strided(*place))
        if changed is None:
            return None
        whole.as_strided(*place).copy_(changed)
        return (whole, *grads[1:])

    base.grad_fn.register_prehook(before)  # type: ignore[union-attr]


def _same_order(base: Tensor, view: Tensor) -> bool:
    return base.numel() == view.numel() and base.dtype == view.dtype and base.is_contiguous() and view.is_contiguous()


def _applied(function: type[torch.autograd.Function], *inputs: Any) -> Tensor:
    made: Tensor = function.apply(*inputs)
    return made


class _ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """`x`, whose gradient arrives multiplied by `factor`."""
    if factor == 1 or not isinstance(x, Tensor) or not x.requires_grad:
        return x
    return x.detach() if factor == 0 else _applied(_ScaleGradient, x, factor)


class _WithSlope(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        evaluate: Callable[[Tensor], Tensor],
        through: Through,
        slope_now: Callable[[Tensor, Tensor], Tensor] | None,
    ) -> Tensor:
        y = evaluate(x)
        ctx.through = through
        ctx.save_for_backward(x if slope_now is None else slope_now(x, y))
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (saved,) = ctx.saved_tensors
        return ctx.through(saved, grad), None, None, None


def _times(slope: Tensor, grad: Tensor) -> Tensor:
    return grad * slope.to(grad.dtype)


def with_gradient(x: Tensor, evaluate: Callable[[Tensor], Tensor], through: Through) -> Tensor:
    """`y = evaluate(x)`, differentiated by `through(x, gradient of y)`."""
    return _applied(_WithSlope, x, evaluate, through, None)


def with_slope(x: Tensor, evaluate: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Tensor:
    """`y = evaluate(x)`, differentiated as if it were `slope(x) * x` with a constant slope."""
    return with_gradient(x, evaluate, lambda x, grad: _times(slope(x), grad))


def with_slope_now(
    x: Tensor, evaluate: Callable[[Tensor], Tensor], slope: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """The same with `slope(x, y)`, computed at once: the model may change x and y in place afterwards."""
    return _applied(_WithSlope, x, evaluate, _times, slope)


class _GatedProduct(torch.autograd.Function):
    """y = f(x) · u for an activation f, each factor with its share of the gradient.

    Keeps x and u. f(x), which an ordinary product would keep too, is computed again.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, u: Tensor, gate: Tensor, gradients: Gradients, share: float) -> Tensor:
        ctx.gradients, ctx.share = gradients, share
        ctx.save_for_backward(x, u)
        return gate * u

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        x, u = ctx.saved_tensors
        return (*ctx.gradients(x, u, grad, ctx.share), None, None, None)


def gated_product(x: Tensor, u: Tensor, gate: Tensor, gradients: Gradients, share: float) -> Tensor:
    """`gate * u` where `gate` = f(x), each factor with `share` of its gradient."""
    return _applied(_GatedProduct, x, u, gate.detach(), gradients, share)


class _DetachedLayerNorm(torch.autograd.Function):
    """y = (x - E[x]) / [sqrt(eps + Var[x])].detach() * w + b: Ali et al. 2022, eq. 10, in fused form.

    Saves one number per row and the weight; x itself is not needed, unlike in the ordinary backward.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None, eps: float, mean: bool
    ) -> Tensor:
        y, _, rstd = torch.native_layer_norm(x, shape, weight, bias, eps)
        if rstd.dtype in (torch.float16, torch.bfloat16):  # the CPU's kernel rounds it, for all of its row
            dims = tuple(range(-len(shape), 0))
            rstd = (widened(x).var(dims, correction=0, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(rstd, weight)
        ctx.shape, ctx.mean = shape, mean
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rstd, weight = ctx.saved_tensors
        columns = prod(ctx.shape)
        kernels = triton_kernels("triton_norm") if grad.is_cuda and not torch.is_grad_enabled() else None
        if kernels is not None and kernels.takes(grad, columns):
            made = kernels.normed(grad, weight, rstd, columns, through_mean=ctx.mean)
            return made, None, None, None, None, None
        wide = widened(grad)
        made = wide.clone() if weight is None else wide * weight  # ours now: the rest is done in place
        if ctx.mean:
            made.sub_(made.mean(tuple(range(-len(ctx.shape), 0)), keepdim=True))
        return made.mul_(rstd).to(grad.dtype), None, None, None, None, None


def detached_layer_norm(
    x: Tensor,
    shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *,
    through_mean: bool = True,
) -> Tensor:
    """Layer norm whose deviation is a constant in the backward pass; its mean too unless `through_mean`."""
    return _applied(_DetachedLayerNorm, x, shape, weight, bias, eps, through_mean)


class _TemperatureSoftmax(torch.autograd.Function):
    """softmax(x) forward; backward with the probabilities at temperature T [GIM, Edin 2025, sec. 4.1].

    The public code of the authors leaves out the factor 1/T of the chain rule, and so do we: the probabilities
    are softened, the step size is not.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, temperature: float, dtype: torch.dtype | None) -> Tensor:
        ctx.save_for_backward(x)
        ctx.dim, ctx.temperature = dim, temperature
        return torch.softmax(x, dim, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        soft = torch.softmax(x / ctx.temperature, ctx.dim, dtype=grad.dtype).nan_to_num_(0.0)
        inner = soft * (grad - (grad * soft).sum(ctx.dim, keepdim=True))
        return inner.to(x.dtype), None, None, None


def temperature_softmax(x: Tensor, dim: int, temperature: float, dtype: torch.dtype | None = None) -> Tensor:
    return _applied(_TemperatureSoftmax, x, dim, temperature, dtype)
