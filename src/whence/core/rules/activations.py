"""Elementwise nonlinearities: y = f(0) + s(x)·x with the slope s(x) = (f(x) - f(0)) / x held constant.

f(0) is zero for most activations. Where it is not (sigmoid, exp, cos, softplus) it is a constant like a bias and
is booked as one. Slopes are in closed form where one exists: f(x)/x loses all digits near zero in half precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.core.backward import Gradients, Through, with_gradient, with_slope, with_slope_now
from whence.core.call import Call, Gate, Rule, is_tainted, mark_gate, mark_origin, mark_role, role_of
from whence.core.kernels import triton_kernels
from whence.core.numerics import widened
from whence.core.recipe import Recipe
from whence.core.rules.structure import mark_mean

__all__ = ["ACTIVATIONS", "rules"]


Slope = Callable[[Tensor, Mapping[str, Any]], Tensor]
"""From x and the options of the call; never the call itself, which would hold its arguments."""


class Activation(NamedTuple):
    """f(0), f'(0), and the slope in closed form where there is one."""

    at_zero: float = 0.0
    derivative_at_zero: float = 1.0
    slope: Slope | None = None
    gated: bool = False
    """Whether f(x) = x·Φ(x) with a gate Φ between 0 and 1."""


def _ratio(x: Tensor, y: Tensor, at_zero: float | Tensor, derivative: float) -> Tensor:
    tiny = torch.finfo(x.dtype).eps
    return torch.where(x.abs() > tiny, (y - at_zero) / x, derivative)


def _gelu_gate(x: Tensor, options: Mapping[str, Any]) -> Tensor:
    """Φ(x). In full precision gelu(x) / x has all its digits, also near zero, and is the quickest way to it."""
    x = widened(x)
    return F.gelu(x, approximate=options.get("approximate", "none")).div_(x).nan_to_num_(nan=0.5)


def _sigmoid_slope(x: Tensor, options: Mapping[str, Any]) -> Tensor:
    half = x / 2  # (σ(x) - ½) / x = tanh(x/2) / (2x)
    return _ratio(half, torch.tanh(half), 0.0, 1.0) / 4


ACTIVATIONS: dict[str, Activation] = {
    "gelu": Activation(0, 0.5, _gelu_gate, gated=True),
    "silu": Activation(0, 0.5, lambda x, options: torch.sigmoid(x), gated=True),
    "mish": Activation(0, 0.6, lambda x, options: torch.tanh(F.softplus(x)), gated=True),
    "hardswish": Activation(0, 0.5, lambda x, options: F.relu6(x + 3) / 6, gated=True),
    "softsign": Activation(0, 1, lambda x, options: 1 / (1 + x.abs())),
    "square": Activation(0, 0, lambda x, options: x, gated=True),
    "tanh": Activation(),
    "erf": Activation(0, 2 / math.sqrt(math.pi)),
    "sin": Activation(),
    "sinh": Activation(),
    "asinh": Activation(),
    "atan": Activation(),
    "expm1": Activation(),
    "log1p": Activation(),
    "elu": Activation(),
    "celu": Activation(),
    "selu": Activation(0, 1.0507),
    "clamp": Activation(),
    "clamp_min": Activation(),
    "clamp_max": Activation(),
    "hardshrink": Activation(0, 0),
    "softshrink": Activation(0, 0),
    "tanhshrink": Activation(0, 0),
    "threshold": Activation(0, 0),
    "round": Activation(0, 0),
    "floor": Activation(0, 0),
    "ceil": Activation(0, 0),
    "trunc": Activation(0, 0),
    "fmod": Activation(),
    "remainder": Activation(),
    "sigmoid": Activation(0.5, 0.25, _sigmoid_slope),
    "hardsigmoid": Activation(0.5, 1 / 6),
    "exp": Activation(1.0, 1.0, lambda x, options: _ratio(x, torch.expm1(x), 0.0, 1.0)),
    "exp2": Activation(1.0, math.log(2)),
    "cos": Activation(1.0, 0.0),
    "cosh": Activation(1.0, 0.0),
    "softplus": Activation(math.log(2), 0.5),
    "logsigmoid": Activation(-math.log(2), 0.5),
}


DERIVATIVES = {"silu": torch.ops.aten.silu_backward, "gelu": torch.ops.aten.gelu_backward}
"""From a gradient and x; of activations that gates are made of."""


def slope(call: Call) -> Any:
    """f(x) with the gradient f(x)/x."""
    x = call.argument(0, "input")
    if not is_tainted(x):
        return call.run()
    kind = ACTIVATIONS[call.name]
    at_zero = _at_zero(call, kind)
    derivative = kind.derivative_at_zero

    closed, options = kind.slope, {k: v for k, v in call.kwargs.items() if not isinstance(v, Tensor)}
    if closed is None or not _default_shape(call):
        out = with_slope_now(x, call.at, lambda x, y: _ratio(x, y, at_zero, derivative))
    elif call.name in ("sigmoid", "exp"):  # torch does not keep x for these, so models may change it in place
        out = with_slope_now(x, call.at, lambda x, y: closed(x, options))
    else:
        sloped = _with_options(closed, options)
        out = with_gradient(x, call.at, _through_slope(call.name, sloped, options))
        if kind.gated:
            mark_gate(out, Gate(x, _by_slope(call.name, sloped, options)))
    if call.keeps_books and not (isinstance(at_zero, float) and at_zero == 0):
        # Where x is infinite (a masked score), f(x) is all constant: 0 = exp(-inf), not 1 + slope · -inf.
        call.book("constant", out, torch.where(x.detach().isinf(), out.detach(), at_zero))
    return _marked(out, x)


def _kernels_for(name: str, *tensors: Tensor) -> Any:
    """Those for GPUs, where they know the slope; None elsewhere, and where the pass is differentiated itself."""
    if not tensors[0].is_cuda or torch.is_grad_enabled():
        return None
    kernels = triton_kernels("triton_gate")
    return kernels if kernels is not None and name in kernels.SLOPES and kernels.takes(*tensors) else None


def _through_slope(name: str, slope: Callable[[Tensor], Tensor], options: Mapping[str, Any]) -> Through:
    """Of y = [s(x)] · x."""

    def through(x: Tensor, grad: Tensor) -> Tensor:
        kernels = _kernels_for(name, x, grad)
        made: Tensor = grad * slope(x).to(grad.dtype) if kernels is None else kernels.sloped(name, options, x, grad)
        return made

    return through


def _by_slope(name: str, slope: Callable[[Tensor], Tensor], options: Mapping[str, Any]) -> Gradients:
    """Of y = [s(x)] · x · u."""

    def gradients(x: Tensor, u: Tensor, grad: Tensor, share: float) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():  # a pass that is differentiated itself: nothing may be overwritten
            sloped = slope(x).to(grad.dtype) * grad * share
            return sloped * u, sloped * x
        kernels = _kernels_for(name, x, u, grad)
        if kernels is not None:
            found: tuple[Tensor, Tensor] = kernels.gradients(name, options, x, u, grad, share)
            return found
        sloped = slope(x).to(grad.dtype)
        sloped = sloped * grad if sloped is x else sloped.mul_(grad)  # the slope of a square is x itself
        if share != 1:
            sloped.mul_(share)
        return sloped * u, sloped.mul_(x)

    return gradients


def _by_derivative(call: Call) -> Gradients:
    """Of y = f(x) · u."""
    derivative, options = DERIVATIVES[call.name], {k: v for k, v in call.kwargs.items() if k == "approximate"}
    evaluate = getattr(F, call.name)

    def gradients(x: Tensor, u: Tensor, grad: Tensor, share: float) -> tuple[Tensor, Tensor]:
        grad = grad if share == 1 else grad * share
        value = evaluate(x, **options)
        return derivative(grad * u, x, **options), value * grad if torch.is_grad_enabled() else value.mul_(grad)

    return gradients


def _with_options(slope: Slope, options: Mapping[str, Any]) -> Callable[[Tensor], Tensor]:
    return lambda x: slope(x, options)


def _default_shape(call: Call) -> bool:
    """Whether the closed form holds: it is written for the function's default shape parameters."""
    return call.name in ("gelu",) or len(call.args) == 1


def _at_zero(call: Call, kind: Activation) -> float | Tensor:
    """f(0), asked of the function itself where arguments (a slope, a bound, a beta) may change it."""
    others = {k: v for k, v in call.kwargs.items() if k not in ("inplace", "input", "out")}
    if _default_shape(call) and not others:
        return float(kind.at_zero)
    if any(isinstance(v, Tensor) and v.numel() > 1 for v in (*call.args[1:], *others.values())):
        return float(kind.at_zero)
    x = call.argument(0, "input")
    if call.name == "gelu":  # its arguments change its shape and not this
        return 0.0
    at_zero: Tensor = call.at(torch.zeros((), dtype=x.dtype, device=x.device))
    return at_zero.detach()


def _marked(out: Tensor, x: Tensor) -> Tensor:
    mark_origin(out, x, linear=False)
    mark_role(out, "gate" if role_of(x) is None else role_of(x))
    return out


def gradient(call: Call) -> Any:
    """f(x) as it is."""
    x = call.argument(0, "input")
    if not is_tainted(x):
        return call.run()
    out = call.measure("activation", [x], call.at)
    if call.name in DERIVATIVES and not call.keeps_books and len(call.args) == 1:  # what is measured must be reached
        mark_gate(out, Gate(x, _by_derivative(call)))
    return _marked(out, x)


def gate(call: Call) -> Any:
    """The slope for self-gated functions x·Φ(x), the gradient for all others [LibraGrad]."""
    return slope(call) if ACTIVATIONS[call.name].gated else gradient(call)


def power(call: Call) -> Any:
    """x ** p. Roots and inverses are deviations (norms); the rest is x · [x^(p-1)]."""
    x, p = call.argument(0, "input"), call.argument(1, "exponent")
    if isinstance(p, Tensor) and p.dim() == 0 and not p.requires_grad:
        p = float(p)
    if not is_tainted(x) or not isinstance(p, (int, float)):
        return constant(call) if call.recipe.activation == "slope" else call.measured("activation")
    if p == 1:
        return call.run()
    if p < 1:
        return deviation(call)
    if call.recipe.activation == "gradient":
        out = call.measure("activation", [x], lambda x: x**p)
    else:
        out = with_slope(x, lambda x: x**p, lambda x: x ** (p - 1))
    return _marked(out, x)


def deviation(call: Call) -> Any:
    """Roots, norms, variances: the size of something, by which something else is divided.

    In a target it is what is asked for.
    """
    if call.recipe.norm == "gradient" or call.interception.in_target:
        x = call.argument(0, "input")
        out = call.measure("norm", [x], call.at) if is_tainted(x) else call.run()
        mark_role(out, "deviation")
        return out
    return constant(call)


def constant(call: Call) -> Any:
    """The result is a constant from here on; it is booked where it joins."""
    out = call.run()
    return type(out)(o.detach() for o in out) if isinstance(out, (tuple, list)) else out.detach()


def variance_and_mean(call: Call) -> Any:
    """var_mean, std_mean: the size is a deviation, the mean is linear."""
    x = call.argument(0, "input")
    if call.recipe.norm != "gradient":
        size, mean = call.run()
        mark_mean(mean, x)
        return size.detach(), mean
    size, mean = call.measure("norm", [x], call.at)
    mark_role(size, "deviation")
    return size, mean


def glu(call: Call) -> Any:
    """a · σ(b), spelled out."""
    x, dim = call.argument(0, "input"), call.argument(1, "dim", -1)
    with call.interception:
        a, b = x.chunk(2, dim)
        return a * torch.sigmoid(b)


DEVIATIONS = (
    "rsqrt",
    "sqrt",
    "std",
    "var",
    "norm",
    "frobenius_norm",
    "reciprocal",
    "inverse",
    "linalg_inv",
    "pinverse",
    "cdist",
    "logsumexp",
    "prod",
    "hypot",
)
WITHOUT_GRADIENT = ("sign", "sgn", "heaviside")
UNDEFINED_AT_ZERO = ("log", "log2", "log10", "acos", "atan2", "angle", "digamma", "lgamma", "erfinv", "polar", "rpow")


def rules(recipe: Recipe) -> dict[str, Rule]:
    rule = {"slope": slope, "gradient": gradient, "gate": gate}[recipe.activation]
    return {
        **dict.fromkeys(ACTIVATIONS, rule),
        **dict.fromkeys(DEVIATIONS, deviation),
        **dict.fromkeys(UNDEFINED_AT_ZERO, without_slope),
        **dict.fromkeys(WITHOUT_GRADIENT, constant),
        "pow": power,
        "var_mean": variance_and_mean,
        "std_mean": variance_and_mean,
        "glu": glu,
    }


def without_slope(call: Call) -> Any:
    """f(x)/x does not exist: a constant, unless the recipe takes gradients, or the target asks for it."""
    if call.recipe.activation == "slope" and not call.interception.in_target:
        return constant(call)
    return call.measured("activation")
