"""Linear layers and convolutions against explicit contributions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.core.helpers import CLOSE, books, explain, normal, reference, seed_for
from tests.reference.linear import conv_matrix, linear_relevance
from whence.core.recipe import Epsilon, Gamma, Plain, ZPlus, recipes

WEIGHT, BIAS = normal(4, 5, seed=1), normal(4, seed=2)
RULES = [
    (Plain(), "plain", 0.0),
    (Epsilon(0.3), "epsilon", 0.3),
    (Gamma(0.25), "gamma", 0.25),
    (Gamma(10.0), "gamma", 10.0),
    (ZPlus(), "zplus", 0.0),
]
# γ and z⁺ divide by z̃ + 1e-9; outputs here are above 1e-2, so shares differ by less than 1e-7 of themselves
STABILISED = {"rtol": 1e-6, "atol": 1e-7}
ids = [f"{name}-{amount}" for _, name, amount in RULES]


@pytest.mark.parametrize(("rule", "name", "amount"), RULES, ids=ids)
@pytest.mark.parametrize("signs", ["mixed", "positive", "negative"])
def test_linear(rule: object, name: str, amount: float, signs: str) -> None:
    x = normal(3, 2, 5)
    x = {"mixed": x, "positive": x.abs(), "negative": -x.abs()}[signs]
    done = explain(lambda x: F.linear(x, WEIGHT, BIAS), x, recipes["gi"].but(linear=rule))
    grad = seed_for(F.linear(x, WEIGHT))
    rows = [[linear_relevance(x[b, n], WEIGHT, BIAS, grad[n], name, amount) for n in range(2)] for b in range(3)]
    expected = torch.stack([torch.stack(r) for r in rows])
    torch.testing.assert_close(done.relevance["x"], expected, **(CLOSE if name in ("plain", "epsilon") else STABILISED))
    torch.testing.assert_close(books(done), torch.zeros(3, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize(("rule", "name", "amount"), RULES, ids=ids)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv2d(rule: object, name: str, amount: float, groups: int) -> None:
    x, weight, bias = normal(2, 2, 4, 5), normal(4, 2 // groups, 3, 2, seed=3), normal(4, seed=4)
    run = lambda x: F.conv2d(x, weight, bias, stride=2, padding=1, groups=groups)
    done = explain(run, x, recipes["gi"].but(conv=rule))
    y = run(x)
    matrix, every = conv_matrix(weight, (4, 5), 2, 1, groups), bias[:, None, None].expand(y.shape[1:]).reshape(-1)
    torch.testing.assert_close(matrix @ x[0].reshape(-1) + every, y[0].reshape(-1), **CLOSE)
    grad = seed_for(y).reshape(-1)
    expected = [linear_relevance(row.reshape(-1), matrix, every, grad, name, amount).view(row.shape) for row in x]
    tolerance = CLOSE if name in ("plain", "epsilon") else STABILISED
    torch.testing.assert_close(done.relevance["x"], torch.stack(expected), **tolerance)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rule", [r for r, _, _ in RULES], ids=ids)
def test_layers_of_either_kind_ignore_the_other_kinds_rule(rule: object, bias: bool) -> None:
    b = BIAS if bias else None
    x = normal(2, 5)
    plain = explain(lambda x: F.linear(x, WEIGHT, b), x, "gi").relevance["x"]
    assert torch.equal(explain(lambda x: F.linear(x, WEIGHT, b), x, recipes["gi"].but(conv=rule)).relevance["x"], plain)
    kernel = normal(4, 1, 3, seed=5)
    run = lambda x: F.conv1d(x[:, None], kernel, b, padding=1)
    assert torch.equal(
        explain(run, x, recipes["gi"].but(linear=rule)).relevance["x"], explain(run, x, "gi").relevance["x"]
    )


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_bias_of_every_convolution_is_booked(dims: int, transposed: bool) -> None:
    conv = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
    x, weight, bias = normal(2, 3, *[4] * dims), normal(3, 3, *[2] * dims, seed=1), normal(3, seed=2)
    run = lambda x: conv(x, weight, bias)
    done = explain(run, x)
    torch.testing.assert_close(done.relevance["x"], reference(run, x), **CLOSE)
    kept = (seed_for(run(x)) * bias.view(-1, *[1] * dims)).sum()
    torch.testing.assert_close(done.sinks["bias"], kept.expand(2), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


def test_the_bias_keeps_its_share_of_a_linear_layer() -> None:
    done = explain(lambda x: F.linear(x, WEIGHT, BIAS), normal(2, 5))
    torch.testing.assert_close(done.sinks["bias"], (BIAS * seed_for(normal(1, 4))).sum().expand(2), **CLOSE)


@pytest.mark.parametrize("share", ["gi", "exact"])
def test_a_weight_that_the_input_made_is_a_product(share: str) -> None:
    x = normal(1, 3, 3)
    done = explain(lambda x: F.linear(x, x[0]), x, share)
    full = reference(lambda x: x @ x[0].T, x)
    torch.testing.assert_close(done.relevance["x"], full if share == "gi" else full / 2, **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(1, dtype=torch.float64), **CLOSE)


@settings(max_examples=20, deadline=None)
@given(
    values=st.lists(st.floats(-3, 3), min_size=5, max_size=5),
    rule=st.sampled_from([r for r, _, _ in RULES]),
    bias=st.floats(-2, 2),
)
def test_no_rule_loses_anything_that_is_not_booked(values: list[float], rule: object, bias: float) -> None:
    x = torch.tensor([values], dtype=torch.float64)
    done = explain(lambda x: F.linear(x, WEIGHT, BIAS + bias), x, recipes["gi"].but(linear=rule))
    assert torch.isfinite(done.relevance["x"]).all()
    # z / z̃ may be as large as 1/1e-9 where contributions cancel; what is lost is measured to 1e-16 · 1e9 · |z|
    torch.testing.assert_close(books(done), torch.zeros(1, dtype=torch.float64), rtol=0, atol=1e-6)


def test_gamma_tends_to_zplus() -> None:
    x = normal(2, 5)
    run = lambda x: F.linear(x, WEIGHT, BIAS)
    big = explain(run, x, recipes["gi"].but(linear=Gamma(1e7))).relevance["x"]
    # the terms that vanish are of order 1/γ
    torch.testing.assert_close(
        big, explain(run, x, recipes["gi"].but(linear=ZPlus())).relevance["x"], rtol=1e-5, atol=1e-5
    )


def test_epsilon_of_zero_outputs_is_finite() -> None:
    x = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    done = explain(lambda x: F.linear(x, torch.ones(1, 2, dtype=torch.float64)), x, recipes["gi"].but(linear=Epsilon()))
    assert torch.equal(done.relevance["x"], torch.zeros_like(x))


def layers(x: Tensor) -> Tensor:
    return F.linear(F.relu(F.linear(x, WEIGHT, BIAS)), normal(3, 4, seed=7), normal(3, seed=8))


def test_two_layers_of_the_gamma_rule() -> None:
    x = normal(2, 5)
    done = explain(layers, x, recipes["gi"].but(linear=Gamma(0.5)))
    expected = []
    for row in x:
        hidden = F.relu(F.linear(row, WEIGHT, BIAS))
        top = linear_relevance(hidden, normal(3, 4, seed=7), normal(3, seed=8), seed_for(normal(1, 3)), "gamma", 0.5)
        below = torch.where(hidden > 0, top / hidden.clamp(min=1e-300), 0.0)
        expected.append(linear_relevance(row, WEIGHT, BIAS, below, "gamma", 0.5))
    torch.testing.assert_close(done.relevance["x"], torch.stack(expected), **STABILISED)


PARAMETER = torch.nn.Parameter(WEIGHT.T.clone())
SPELLINGS = {
    "matmul": lambda x: x @ PARAMETER + BIAS,
    "addmm": lambda x: torch.addmm(BIAS, x.reshape(-1, 5), PARAMETER).view(3, 2, 4),
    "einsum": lambda x: torch.einsum("bti,io->bto", x, PARAMETER) + BIAS,
    "transposed": lambda x: (PARAMETER.T @ x.mT).mT + BIAS,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(("rule", "name", "amount"), RULES, ids=ids)
def test_a_layer_in_another_spelling_is_a_layer(rule: object, name: str, amount: float, spelling: str) -> None:
    """A bias that is added afterwards is a sum of its own, of which the rule knows nothing; addmm has it inside."""
    x, recipe = normal(3, 2, 5), recipes["gi"].but(linear=rule)
    done = explain(SPELLINGS[spelling], x, recipe)
    plain = {"addmm": lambda x: F.linear(x, WEIGHT, BIAS)}.get(spelling, lambda x: F.linear(x, WEIGHT) + BIAS)
    wanted = explain(plain, x, recipe)
    torch.testing.assert_close(done.relevance["x"], wanted.relevance["x"], **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-7)


@pytest.mark.parametrize("tainted", ["weight", "bias", "input and bias"])
def test_what_the_input_made_keeps_the_books(tainted: str) -> None:
    fixed = normal(2, 5, seed=7)
    layers = {
        "weight": lambda x: F.linear(fixed, x[0, :4], BIAS)[None],
        "bias": lambda x: F.linear(fixed, WEIGHT, x[0, 0, :4])[None],
        "input and bias": lambda x: F.linear(x, WEIGHT, x[0, 0, :4]),
    }
    x = normal(1, 4, 5) if tainted == "weight" else normal(1, 2, 5)
    done = explain(layers[tainted], x, "exact")
    torch.testing.assert_close(books(done), torch.zeros(1, dtype=torch.float64), **CLOSE)
