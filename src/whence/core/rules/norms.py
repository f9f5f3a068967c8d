"""Normalisation: (x - mean) / deviation · w + b."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from whence.core.backward import detached_layer_norm, with_slope, with_slope_now
from whence.core.call import Call, Rule, is_tainted
from whence.core.numerics import divide, widened
from whence.core.recipe import Recipe

__all__ = ["rules"]


def layer_norm(call: Call) -> Any:
    x, shape = call.argument(0, "input"), tuple(call.argument(1, "normalized_shape"))
    weight, bias, eps = call.argument(2, "weight"), call.argument(3, "bias"), call.argument(4, "eps", 1e-5)
    if not is_tainted(x):
        return call.run()
    mode = call.recipe.norm
    if mode == "gradient":
        return call.measure("norm", [x], call.at)
    if mode == "detach_mean":
        return call.measure("norm", [x], lambda x: detached_layer_norm(x, shape, weight, bias, eps, through_mean=False))
    if mode == "detach":
        out = detached_layer_norm(x, shape, weight, bias, eps)
    else:
        out = _identity(x, call.at, bias)
    call.book("bias", out, bias)
    return out


def _identity(x: Tensor, run: Callable[[Tensor], Tensor], bias: Tensor | None) -> Tensor:
    """Each element keeps its own relevance: R(x_i) = R(y_i) [Achtibat 2024]; the bias is left out of the slope."""
    offset = 0.0 if bias is None else bias
    return with_slope_now(x, run, lambda x, y: divide(y - offset, x))


def rms_norm(call: Call) -> Any:
    """x · [1 / rms(x)] · w. Elementwise, so detaching and the identity rule are the same thing."""
    x = call.argument(0, "input")
    if not is_tainted(x):
        return call.run()
    if call.recipe.norm == "gradient":
        return call.measure("norm", [x], call.at)
    shape, weight = call.argument(1, "normalized_shape"), call.argument(2, "weight")
    eps = call.argument(3, "eps")
    tiny = torch.finfo(x.dtype).eps if eps is None else eps
    dims = tuple(range(-len(shape), 0))

    def scale(x: Tensor) -> Tensor:
        rstd = torch.rsqrt(widened(x).pow(2).mean(dims, keepdim=True) + tiny)
        return rstd if weight is None else rstd * weight

    return with_slope(x, call.at, scale)


def group_norm(call: Call) -> Any:
    """Group norm, and instance norm as groups of one channel each."""
    x = call.argument(0, "input")
    if not is_tainted(x):
        return call.run()
    if call.name == "group_norm":
        groups, weight, bias, eps = (call.argument(i, n, d) for i, n, d in _GROUP_NORM)
    else:
        running, in_use = call.argument(1, "running_mean"), call.argument(5, "use_input_stats", True)
        if running is not None and not in_use:
            return affine(call)
        groups, weight, bias, eps = x.shape[1], *(call.argument(i, n, d) for i, n, d in _INSTANCE_NORM)
    if call.recipe.norm == "gradient":
        return call.measure("norm", [x], call.at)
    through_mean = call.recipe.norm != "detach_mean"

    def normalised(x: Tensor) -> Tensor:
        grouped = x.reshape(x.shape[0], groups, -1)
        return detached_layer_norm(grouped, grouped.shape[-1:], None, None, eps, through_mean=through_mean).view(
            x.shape
        )

    out = normalised(x) if through_mean else call.measure("norm", [x], normalised)
    channels = (1, -1, *[1] * (x.dim() - 2))
    if weight is not None:
        out = out * weight.reshape(channels)
    if bias is not None:
        out = out + bias.reshape(channels)
        call.book("bias", out, bias.reshape(channels))
    return out


_GROUP_NORM = ((1, "num_groups", 1), (2, "weight", None), (3, "bias", None), (4, "eps", 1e-5))
_INSTANCE_NORM = ((3, "weight", None), (4, "bias", None), (7, "eps", 1e-5))


def affine(call: Call) -> Any:
    """A function that is affine in its first argument (batch norm in evaluation): its value at 0 is the bias."""
    out = call.run()
    if call.keeps_books and is_tainted(out):
        call.book("bias", out, call.at(torch.zeros_like(call.argument(0, "input"))))
    return out


def batch_norm(call: Call) -> Any:
    """Batch norm in evaluation: x · scale + shift, spelled out.

    Not only simpler: torch's CPU kernel returns a wrong gradient for a single example whose gradient comes with
    the strides of a transposed tensor (seen with 2.13; LeViT and CvT meet it).
    """
    x, mean, variance = call.argument(0, "input"), call.argument(1, "running_mean"), call.argument(2, "running_var")
    weight, bias = call.argument(3, "weight"), call.argument(4, "bias")
    eps = call.argument(7, "eps", 1e-5)
    if call.argument(5, "training", False) or mean is None or not is_tainted(x):
        return affine(call)
    channels = (1, -1, *[1] * (x.dim() - 2))
    scale = torch.rsqrt(variance + eps) * (1 if weight is None else weight)
    shift = -mean * scale + (0 if bias is None else bias)
    out = x * scale.reshape(channels) + shift.reshape(channels)
    call.book("bias", out, shift.reshape(channels))
    return out


def normalize(call: Call) -> Any:
    """F.normalize: x / ‖x‖, spelled out so that the norm is seen."""
    x = call.argument(0, "input")
    p, dim, eps = call.argument(1, "p", 2.0), call.argument(2, "dim", 1), call.argument(3, "eps", 1e-12)
    with call.interception:
        return x / torch.linalg.vector_norm(x, p, dim, keepdim=True).clamp_min(eps)


def cosine_similarity(call: Call) -> Any:
    a, b = call.argument(0, "x1"), call.argument(1, "x2")
    dim, eps = call.argument(2, "dim", 1), call.argument(3, "eps", 1e-8)
    with call.interception:
        a = a / torch.linalg.vector_norm(a, 2, dim, keepdim=True).clamp_min(eps)
        b = b / torch.linalg.vector_norm(b, 2, dim, keepdim=True).clamp_min(eps)
        return (a * b).sum(dim)


def rules(recipe: Recipe) -> dict[str, Rule]:
    return {
        "layer_norm": layer_norm,
        "rms_norm": rms_norm,
        "group_norm": group_norm,
        "instance_norm": group_norm,
        "batch_norm": batch_norm,
        "normalize": normalize,
        "cosine_similarity": cosine_similarity,
    }
