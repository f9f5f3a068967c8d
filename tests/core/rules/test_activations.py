"""Elementwise functions against plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.core.helpers import CLOSE, books, explain, normal, reference, seed_for
from tests.reference.activations import FUNCTIONS, gradient_relevance, slope_relevance
from tests.reference.detached import PRESETS as TABLE
from whence.core.recipe import recipes
from whence.core.rules.activations import ACTIVATIONS

ROOT = math.sqrt(2 / math.pi)
# name in the reference, spelling, whether it is x·Φ(x)
SPELLINGS: dict[str, tuple[str, Callable[[Tensor], Tensor], bool]] = {
    "gelu": ("gelu", F.gelu, True),
    "gelu by erf": ("gelu", lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), True),
    "tanh-gelu": ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), True),
    "tanh-gelu of gpt-2": (
        "gelu_tanh",
        lambda x: 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 3.0)))),
        True,
    ),
    "tanh-gelu of bloom": (
        "gelu_tanh",
        lambda x: x * 0.5 * (1.0 + torch.tanh(0.79788456080286535588 * x * (1 + 0.044715 * x * x))),
        True,
    ),
    "silu": ("silu", F.silu, True),
    "x·sigmoid(x)": ("silu", lambda x: x * torch.sigmoid(x), True),
    "sigmoid(x)·x": ("silu", lambda x: torch.sigmoid(x) * x, True),
    "mish": ("mish", F.mish, True),
    "tanh": ("tanh", torch.tanh, False),
    "relu": ("relu", F.relu, False),
    "relu(x)**2": ("relu2", lambda x: F.relu(x) ** 2, True),
    "torch.square(relu(x))": ("relu2", lambda x: torch.square(F.relu(x)), True),
    "relu(x)·relu(x)": ("relu2", lambda x: (r := torch.relu(x)) * r, True),
    "x·x": ("square", lambda x: x * x, True),
    "sigmoid": ("sigmoid", torch.sigmoid, False),
    "exp": ("exp", torch.exp, False),
    "softplus": ("softplus", F.softplus, False),
    "erf": ("erf", torch.erf, False),
    "sin": ("sin", torch.sin, False),
    "cos": ("cos", torch.cos, False),
    "elu": ("elu", F.elu, False),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_under_every_preset(spelling: str, preset: str) -> None:
    name, f, gated = SPELLINGS[spelling]
    x = normal(2, 7) * 2
    done = explain(f, x, preset)
    by_slope = TABLE[preset].activation == "slope" or (TABLE[preset].activation == "gate" and gated)
    expected = (slope_relevance if by_slope else gradient_relevance)(name, x, seed_for(x).expand_as(x))
    torch.testing.assert_close(done.relevance["x"], expected, **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)
    value = [[FUNCTIONS[name][0](v) for v in row] for row in x.tolist()]
    torch.testing.assert_close(done.outputs, torch.tensor(value, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_every_activation_in_the_table_conserves_and_is_finite_at_zero(name: str) -> None:
    f = getattr(F, name, None) or getattr(torch, name)
    more = {"clamp": (-0.5, 0.7), "clamp_min": (0.2,), "clamp_max": (0.4,), "threshold": (0.1, 0.3)}
    more |= {"fmod": (1.0,), "remainder": (1.0,)}
    x = torch.cat([normal(2, 7).clamp(min=-0.9), torch.zeros(2, 2, dtype=torch.float64)], 1)
    done = explain(lambda x: f(x, *more.get(name, ())), x)
    assert torch.isfinite(done.relevance["x"]).all()
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)
    at_zero = f(torch.zeros(1, dtype=torch.float64), *more.get(name, ()))
    torch.testing.assert_close(done.relevance["x"], (f(x, *more.get(name, ())) - at_zero) * seed_for(x), **CLOSE)


@pytest.mark.parametrize(
    ("name", "limit"), [("gelu", 0.5), ("silu", 0.5), ("mish", 0.6), ("tanh", 1.0), ("sin", 1.0), ("sigmoid", 0.25)]
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_slope_near_zero_is_the_derivative(name: str, limit: float, dtype: torch.dtype) -> None:
    f = getattr(torch, name, None) or getattr(F, name)
    x = torch.tensor([[0.0, 1e-30, -1e-30, 1e-12, -1e-4]], dtype=dtype)
    done = explain(lambda x: f(x), x, target=lambda y: y.sum(1))
    # the second-order term of f(x)/x is below 1e-4; a float's own rounding comes on top
    expected = (x * limit).to(done.relevance["x"].dtype)
    torch.testing.assert_close(done.relevance["x"], expected, rtol=2e-4 + 4 * torch.finfo(dtype).eps, atol=0)


def test_constant_parts_are_booked() -> None:
    x = normal(2, 3)
    for f, at_zero in ((torch.sigmoid, 0.5), (torch.exp, 1.0), (torch.cos, 1.0), (F.softplus, math.log(2))):
        done = explain(f, x)
        torch.testing.assert_close(done.sinks["constant"], at_zero * seed_for(x).sum().expand(2), **CLOSE)


@pytest.mark.parametrize("arguments", [{"beta": 2.0}, {"beta": 2.0, "threshold": 1.0}])
def test_shape_parameters_move_the_value_at_zero(arguments: dict[str, float]) -> None:
    x = normal(2, 5)
    done = explain(lambda x: F.softplus(x, **arguments), x)
    torch.testing.assert_close(
        done.relevance["x"], (F.softplus(x, **arguments) - math.log(2) / 2) * seed_for(x), **CLOSE
    )


@pytest.mark.parametrize("dim", [-1, 1])
def test_glu_is_a_product_with_a_sigmoid(dim: int, preset: str) -> None:
    x = normal(2, 6)
    done = explain(lambda x: F.glu(x, dim), x, preset)
    table = TABLE[preset]

    def by_hand(x: Tensor) -> Tensor:
        a, b = x[:, :3], x[:, 3:]
        gate = torch.sigmoid(b)
        if table.activation == "slope":
            gate = 0.5 + b * ((gate - 0.5) / b).detach()
        if table.gate == "detach":
            return a * gate.detach()
        return 0.5 * (a * gate.detach() + a.detach() * gate) if table.gate == "half" else a * gate

    torch.testing.assert_close(done.relevance["x"], reference(by_hand, x), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize(
    "f", [lambda x: x ** torch.tensor([1.5, 2.0, 3.0]).double(), lambda x: 2**x, lambda x: torch.pow(2.0, x)]
)
def test_other_powers_have_their_gradient_where_activations_do(f: Callable[[Tensor], Tensor]) -> None:
    x = normal(2, 3).abs()
    done = explain(f, x, "gi")
    torch.testing.assert_close(done.relevance["x"], reference(f, x), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("exponent", [2, 3, 1.5, 1])
def test_powers_have_the_slope_x_to_the_p_minus_one(exponent: float) -> None:
    x = normal(2, 5).abs()
    done = explain(lambda x: x**exponent, x)
    torch.testing.assert_close(done.relevance["x"], x**exponent * seed_for(x), **CLOSE)


@pytest.mark.parametrize("f", [torch.sqrt, torch.rsqrt, lambda x: x**-0.5, torch.reciprocal, lambda x: 1 / x])
def test_roots_and_inverses_are_constants_unless_the_norm_has_its_gradient(f: Callable[[Tensor], Tensor]) -> None:
    x = normal(2, 5).abs() + 0.5
    run = lambda x: x * 0.5 + f(x)
    done = explain(run, x)
    torch.testing.assert_close(done.relevance["x"], x * 0.5 * seed_for(x), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)
    done = explain(run, x, "gi")
    torch.testing.assert_close(done.relevance["x"], reference(run, x), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("f", [F.silu, F.mish, F.hardswish, F.relu, F.elu, F.hardtanh, F.relu6])
def test_inplace_activations(f: Callable[..., Tensor], inplace: bool) -> None:
    x = normal(2, 5)
    done = explain(lambda x: f(x * 2.0, inplace=inplace), x)
    torch.testing.assert_close(done.relevance["x"], f(2 * x) * seed_for(x), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@settings(max_examples=20, deadline=None)
@given(
    values=st.lists(st.floats(-30, 30), min_size=4, max_size=4),
    name=st.sampled_from(["gelu", "silu", "tanh", "sigmoid", "exp", "softplus", "sin", "relu"]),
    recipe=st.sampled_from(["exact", "gi", "libragrad"]),
)
def test_books_close_wherever_the_input_lies(values: list[float], name: str, recipe: str) -> None:
    f = getattr(torch, name, None) or getattr(F, name)
    x = torch.tensor([values], dtype=torch.float64)
    done = explain(f, x, recipes[recipe])
    size = float(f(x).abs().max()) * (1 + float(x.abs().max()))
    assert float(books(done).abs()) <= 1e-12 * (1 + size)  # a few roundings of the largest term


def test_a_square_that_gates_leaves_its_input_alone() -> None:
    """relu(x)² · u, whose slope is relu(x) itself: what torch keeps of the ReLU is not written over."""
    x = normal(2, 4, 6)
    done = explain(lambda x: torch.square(torch.relu(2 * x)) * x.flip(-1), x)
    torch.testing.assert_close(
        done.relevance["x"], explain(lambda x: torch.relu(2 * x).pow(2) * x.flip(-1), x).relevance["x"]
    )
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)
