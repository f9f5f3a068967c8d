"""Elementwise functions in plain Python, their derivatives, and relevance by the slope f(x)/x."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["FUNCTIONS", "gradient_relevance", "slope_relevance"]

_C = math.sqrt(2 / math.pi)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _phi(x: float) -> float:
    """Distribution function of the normal distribution."""
    return math.erfc(-x / math.sqrt(2)) / 2


def _tanh_gelu_slope(x: float) -> float:
    t = math.tanh(_C * (x + 0.044715 * x**3))
    return (1 + t) / 2 + x / 2 * (1 - t * t) * _C * (1 + 3 * 0.044715 * x**2)


FUNCTIONS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "gelu": (lambda x: x * _phi(x), lambda x: _phi(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    "gelu_tanh": (lambda x: x / 2 * (1 + math.tanh(_C * (x + 0.044715 * x**3))), _tanh_gelu_slope),
    "silu": (lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x)))),
    "tanh": (math.tanh, lambda x: 1 - math.tanh(x) ** 2),
    "relu": (lambda x: max(x, 0.0), lambda x: float(x > 0)),
    "relu2": (lambda x: max(x, 0.0) ** 2, lambda x: 2 * max(x, 0.0)),
    "square": (lambda x: x * x, lambda x: 2 * x),
    "sigmoid": (_sigmoid, lambda x: _sigmoid(x) * (1 - _sigmoid(x))),
    "exp": (math.exp, math.exp),
    "softplus": (lambda x: math.log1p(math.exp(x)), _sigmoid),
    "erf": (math.erf, lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x)),
    "sin": (math.sin, math.cos),
    "cos": (math.cos, lambda x: -math.sin(x)),
    "mish": (
        lambda x: x * math.tanh(math.log1p(math.exp(x))),
        lambda x: math.tanh(math.log1p(math.exp(x))) + x * (1 - math.tanh(math.log1p(math.exp(x))) ** 2) * _sigmoid(x),
    ),
    "elu": (lambda x: x if x > 0 else math.expm1(x), lambda x: 1.0 if x > 0 else math.exp(x)),
}
"""Name to f and f'."""


def slope_relevance(name: str, x: Tensor, grad: Tensor) -> Tensor:
    """R = x · (f(x) - f(0))/x · g = (f(x) - f(0)) · g: all of the value but its constant part f(0)."""
    f, _ = FUNCTIONS[name]
    values = [(f(v) - f(0.0)) * g for v, g in zip(x.flatten().tolist(), grad.flatten().tolist(), strict=True)]
    return torch.tensor(values, dtype=torch.float64).view(x.shape)


def gradient_relevance(name: str, x: Tensor, grad: Tensor) -> Tensor:
    """R = x · f'(x) · g."""
    _, derivative = FUNCTIONS[name]
    values = [v * derivative(v) * g for v, g in zip(x.flatten().tolist(), grad.flatten().tolist(), strict=True)]
    return torch.tensor(values, dtype=torch.float64).view(x.shape)
