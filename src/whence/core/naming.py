"""One name for each torch function, however it was called.

`x + y`, `x += y`, `torch.add(x, y)`, `x.add_(y)` and `1 + x` all reach a `TorchFunctionMode` as different
Python objects. Rules are tables keyed by the one name they share, here `"add"`. Functions of other libraries keep the
name of their home, `"mylib::softmax"`: what theirs does is not what torch's does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch

__all__ = ["Name", "name_of", "out_of_place"]

# Names that mean the same function. Keys on the left are what remains after dunders and trailing '_' are gone.
ALIASES = {
    "radd": "add",
    "iadd": "add",
    "isub": "sub",
    "subtract": "sub",
    "rmul": "mul",
    "imul": "mul",
    "multiply": "mul",
    "truediv": "div",
    "itruediv": "div",
    "true_divide": "div",
    "divide": "div",
    "idiv": "div",
    "rtruediv": "rdiv",
    "ipow": "pow",
    "ifloordiv": "floor_divide",
    "imod": "remainder",
    "iand": "bitwise_and",
    "ior": "bitwise_or",
    "ixor": "bitwise_xor",
    "ilshift": "bitwise_left_shift",
    "irshift": "bitwise_right_shift",
    "rmatmul": "matmul",
    "concat": "cat",
    "concatenate": "cat",
    "negative": "neg",
    "special_expit": "sigmoid",
    "special_erf": "erf",
    "special_softmax": "softmax",
    "special_log_softmax": "log_softmax",
    "special_expm1": "expm1",
    "special_log1p": "log1p",
    "hardtanh": "clamp",
    "clip": "clamp",
    "relu6": "clamp",
    "swish": "silu",
    "arctan": "atan",
    "absolute": "abs",
    "fmax": "maximum",
    "fmin": "minimum",
    "log_sigmoid": "logsigmoid",
    "_threshold": "threshold",
    "linalg_norm": "norm",
    "linalg_vector_norm": "norm",
    "vector_norm": "norm",
    "float_power": "pow",
}
OPERATORS = ("OpOverloadPacket", "OpOverload")
WRITE = {"setitem"} | {
    f"i{name}" for name in "add sub mul truediv div floordiv mod pow and or xor lshift rshift".split()
}
"""What `x[0] = y`, `x += y` and their like are called."""


class Name(NamedTuple):
    """Canonical name of a torch function, and whether it writes into its first argument."""

    name: str
    inplace: bool


@cache
def name_of(func: Callable[..., Any]) -> Name:
    """Canonical name of `func`.

    >>> name_of(torch.Tensor.add_), name_of(torch.add).name, name_of(torch.Tensor.__rsub__).name
    (Name(name='add', inplace=True), 'add', 'rsub')
    """
    if type(func).__name__ in OPERATORS:  # torch.ops.namespace.name[.overload]
        full = getattr(func, "_qualified_op_name", None) or func.name()  # type: ignore[attr-defined]
        home, _, raw = full.split(".")[0].rpartition("::")
    else:
        raw = getattr(func, "__name__", None) or type(func).__name__
        home = (getattr(func, "__module__", None) or "torch").split(".")[0]
    if raw.startswith("__") and raw.endswith("__"):
        bare = raw.strip("_")
        inplace = bare in WRITE
    else:
        bare = raw.removesuffix("_") if not raw.startswith("_") else raw
        inplace = bare != raw
    return Name(ALIASES.get(bare, bare) if home in ("torch", "aten", "") else f"{home}::{raw}", inplace)


def out_of_place(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function that computes the same value as the in-place `func` and leaves its argument alone."""
    raw = func.__name__
    plain = raw.removesuffix("_") if not raw.startswith("__") else ALIASES.get(raw.strip("_"), raw.strip("_"))
    for home in (torch.Tensor, torch, torch.nn.functional):
        if hasattr(home, plain):
            found: Callable[..., Any] = getattr(home, plain)
            return found
    raise AttributeError(f"torch has no out-of-place form of {raw}")
