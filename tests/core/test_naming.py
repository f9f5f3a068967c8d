"""One name for each function."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from whence.core.naming import Name, name_of, out_of_place

X = torch.tensor([0.3, 0.6])


class Listener(TorchFunctionMode):
    """Names of all functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[Name] = []

    def __torch_function__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        self.names.append(name_of(func))
        return func(*args, **(kwargs or {}))


def in_place(change: str) -> Callable[[torch.Tensor], None]:
    def run(x: torch.Tensor) -> None:
        exec(change, {"x": x, "X": X})

    return run


CALLS: dict[str, list[Callable[[torch.Tensor], object]]] = {
    "add": [lambda x: x + X, lambda x: 1 + x, lambda x: torch.add(x, X), lambda x: x.add(X)],
    "sub": [lambda x: x - X, lambda x: torch.subtract(x, X), lambda x: x.sub(1)],
    "rsub": [lambda x: 1 - x, lambda x: torch.rsub(x, 1)],
    "mul": [lambda x: x * X, lambda x: 2 * x, lambda x: torch.multiply(x, X)],
    "div": [lambda x: x / X, lambda x: torch.true_divide(x, X), lambda x: torch.divide(x, 2)],
    "pow": [lambda x: x**2, lambda x: torch.pow(x, 2), lambda x: torch.float_power(x, 2)],
    "matmul": [lambda x: x @ X, lambda x: torch.matmul(x, X)],
    "softmax": [lambda x: F.softmax(x, -1), lambda x: x.softmax(-1), lambda x: torch.special.softmax(x, -1)],
    "sigmoid": [torch.sigmoid, lambda x: x.sigmoid(), torch.special.expit],
    "erf": [torch.erf, torch.special.erf],
    "cat": [lambda x: torch.cat([x, X]), lambda x: torch.concat([x, X]), lambda x: torch.concatenate([x, X])],
    "norm": [torch.linalg.vector_norm, torch.linalg.norm],
    "clamp": [lambda x: x.clip(0, 1), lambda x: x.clamp(0, 1), F.hardtanh, F.relu6],
    "getitem": [lambda x: x[0]],
    "silu": [F.silu],
    "rdiv": [lambda x: 1 / x],
}


@pytest.mark.parametrize("name", CALLS)
def test_every_spelling_has_the_same_name(name: str) -> None:
    for call in CALLS[name]:
        with Listener() as heard:
            call(X)
        # `1 / x` reaches the mode as x.reciprocal() * 1 in some releases; rdiv and reciprocal are both deviations
        assert heard.names[0].name in ({name, "reciprocal"} if name == "rdiv" else {name})
        assert not heard.names[0].inplace


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("x += X", "add"),
        ("x -= X", "sub"),
        ("x *= X", "mul"),
        ("x /= X", "div"),
        ("x **= 2", "pow"),
        ("x.add_(X)", "add"),
        ("x.masked_fill_(X > 0, 1.0)", "masked_fill"),
        ("x[0] = 1.0", "setitem"),
        ("x.copy_(X)", "copy"),
    ],
)
def test_in_place_functions_are_known_as_such(change: str, name: str) -> None:
    with Listener() as heard:
        in_place(change)(X.clone())
    assert Name(name, True) in heard.names


@pytest.mark.parametrize(
    "change", ["x.add_(X)", "x.mul_(X)", "x.sigmoid_()", "x.clamp_(0, 0.5)", "x *= X", "x /= X", "x -= X", "x **= 2"]
)
def test_out_of_place_computes_the_same_and_leaves_its_argument(change: str) -> None:
    calls: list[tuple[Callable, tuple]] = []

    class Recorder(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
        ) -> object:
            if name_of(func).inplace:
                calls.append((func, args))
            return func(*args, **(kwargs or {}))

    x = X.clone()
    with Recorder():
        in_place(change)(x)
    (func, args), fresh = calls[0], X.clone()
    assert torch.equal(out_of_place(func)(fresh, *args[1:]), x)
    assert torch.equal(fresh, X)


def test_operators_of_torch_ops_have_the_name_of_the_operator() -> None:
    assert name_of(torch.ops.aten.add.Tensor).name == "add"
    assert name_of(torch.ops.aten.relu).name == "relu"


def test_private_functions_keep_their_name() -> None:
    def _hidden() -> None: ...

    _hidden.__module__ = "torch.nn"
    assert name_of(_hidden) == Name("_hidden", False)


def test_functions_of_others_keep_their_home() -> None:
    def softmax() -> None: ...

    softmax.__module__ = "mylib.kernels"
    assert name_of(softmax) == Name("mylib::softmax", False)
    lib = torch.library.Library("whence_test_naming", "DEF")
    lib.define("softmax(Tensor x) -> Tensor")
    assert name_of(torch.ops.whence_test_naming.softmax).name == "whence_test_naming::softmax"
    assert name_of(torch.ops.whence_test_naming.softmax.default).name == "whence_test_naming::softmax"
