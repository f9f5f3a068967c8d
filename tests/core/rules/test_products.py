"""Products of two tensors that both carry relevance."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.core.helpers import CLOSE, books, explain, normal, reference, seed_for
from tests.core.models import Experts, Gated, seeded
from tests.reference.detached import PRESETS as TABLE
from tests.reference.detached import Rules
from whence.core.recipe import recipes

ZERO = torch.zeros(1, dtype=torch.float64)


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[:, 0] @ normal(4, 4, seed=1), x[:, 1] @ normal(4, 4, seed=2)


def halved(a: Tensor, b: Tensor, op: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return 0.5 * (op(a, b.detach()) + op(a.detach(), b))


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mul": torch.mul,
    "operator": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b.transpose(-2, -1),
    "bmm": lambda a, b: torch.bmm(a, b.transpose(-2, -1)),
    "einsum": lambda a, b: torch.einsum("bij,bkj->bik", a, b),
    "einsum of a list": lambda a, b: torch.einsum("bij,bkj->bik", [a, b]),
    "outer": lambda a, b: torch.einsum("bij,bkl->bikl", a, b),
    "baddbmm": lambda a, b: torch.baddbmm(torch.zeros(1, 3, 3).double(), a, b.transpose(-2, -1), alpha=2.0),
    "addcmul": lambda a, b: torch.addcmul(torch.zeros(3, 4).double(), a, b, value=0.5),
    "in place": lambda a, b: a.clone().mul_(b),
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_halves_or_gradient(product: str, preset: str) -> None:
    x = normal(2, 2, 3, 4)
    op = PRODUCTS[product]
    done = explain(lambda x: op(*split(x)), x, preset)
    table = TABLE[preset].gate  # a product of which neither side is a gate is halved under cp_lrp as well
    by_hand = lambda x: op(*split(x)) if table == "gradient" else halved(*split(x), op)
    torch.testing.assert_close(done.relevance["x"], reference(by_hand, x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


@pytest.mark.parametrize("order", ["gate first", "gate last"])
def test_gated_mlp(order: str, preset: str) -> None:
    mlp = seeded(Gated())
    run = mlp if order == "gate first" else lambda x: mlp.down(mlp.up(x) * F.silu(mlp.gate(x)))
    x = normal(2, 3, 8)
    done = explain(run, x, preset)
    torch.testing.assert_close(done.relevance["x"], reference(lambda x: mlp.reference(x, Rules(preset)), x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


@pytest.mark.parametrize("activation", ["gelu", "tanh"])
def test_gated_mlp_of_one_projection(activation: str, preset: str) -> None:
    """GEGLU: both halves come out of one layer."""
    weight = normal(8, 4, seed=5)

    def run(x: Tensor) -> Tensor:
        gate, up = F.linear(x, weight).chunk(2, dim=-1)
        return getattr(torch.nn.functional if activation == "gelu" else torch, activation)(gate) * up

    def by_hand(x: Tensor) -> Tensor:
        rules = Rules(preset)
        y = x @ weight.T
        return rules.gate(getattr(rules, activation)(y[..., :4]), y[..., 4:])

    x = normal(2, 3, 4)
    torch.testing.assert_close(explain(run, x, preset).relevance["x"], reference(by_hand, x), **CLOSE)


def test_sparse_experts(preset: str) -> None:
    experts = seeded(Experts())
    x = normal(3, 4, 8)
    by_hand = reference(lambda x: experts.reference(x, Rules(preset)), x)
    torch.testing.assert_close(explain(experts, x, preset).relevance["x"], by_hand, **CLOSE)
    for n in range(3):  # experts mix the rows of a batch, so the books are those of single examples
        done = explain(experts, x[n : n + 1], preset)
        torch.testing.assert_close(done.relevance["x"], by_hand[n : n + 1], **CLOSE)
        torch.testing.assert_close(books(done), ZERO, **CLOSE)


@pytest.mark.parametrize("name", ["gi", "exact"])
def test_division_is_linear_above_and_constant_below(name: str) -> None:
    x = normal(2, 2, 3, 4)
    done = explain(lambda x: split(x)[0] / (split(x)[1] ** 2 + 1), x, name)

    def by_hand(x: Tensor) -> Tensor:
        below = split(x)[1] ** 2 + 1
        return split(x)[0] / (below if name == "gi" else below.detach())

    torch.testing.assert_close(done.relevance["x"], reference(by_hand, x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


@pytest.mark.parametrize("f", [torch.add, torch.addcmul, torch.addcdiv])
def test_products_with_constants_are_linear(f: Callable[..., Tensor], preset: str) -> None:
    a, b = normal(4, seed=5), normal(4, seed=6).abs() + 1
    x = normal(2, 4)
    run = lambda x: f(x, a) if f is torch.add else f(x, x, b, value=0.5)
    by_hand = {
        torch.add: lambda x: x + a,
        torch.addcmul: lambda x: x + x * b / 2,
        torch.addcdiv: lambda x: x + x / b / 2,
    }
    done = explain(run, x, preset)
    torch.testing.assert_close(done.relevance["x"], reference(by_hand[f], x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


def test_the_bias_of_addmm_is_booked() -> None:
    x, weight, bias = normal(3, 4), normal(4, 5, seed=1), normal(5, seed=2)
    done = explain(lambda x: torch.addmm(bias, x, weight), x)
    torch.testing.assert_close(done.relevance["x"], reference(lambda x: x @ weight, x), **CLOSE)
    torch.testing.assert_close(done.sinks["bias"], (bias * normal(5, seed=99)).sum().expand(3), **CLOSE)


def test_bilinear_layers(preset: str) -> None:
    weight, bias = normal(5, 4, 4, seed=3), normal(5, seed=4)
    x = normal(2, 2, 3, 4)
    done = explain(lambda x: F.bilinear(*split(x), weight, bias), x, preset)
    op = lambda a, b: torch.einsum("...i,oij,...j->...o", a, weight, b)
    by_hand = lambda x: op(*split(x)) if TABLE[preset].gate == "gradient" else halved(*split(x), op)
    torch.testing.assert_close(done.relevance["x"], reference(by_hand, x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


@pytest.mark.parametrize("name", ["gi", "cp_lrp", "exact"])
def test_arguments_may_be_given_by_name(name: str) -> None:
    x = normal(2, 2, 3, 4)
    pairs = [
        (lambda a, b: torch.mul(input=F.silu(a), other=b), lambda a, b: F.silu(a) * b),
        (lambda a, b: torch.mul(b, other=F.silu(a)), lambda a, b: b * F.silu(a)),
        (lambda a, b: torch.div(a, other=b), lambda a, b: a / b),
        (lambda a, b: torch.matmul(input=a, other=b.mT), lambda a, b: a @ b.mT),
        (lambda a, b: torch.add(input=a, other=b, alpha=2), lambda a, b: a + 2 * b),
    ]
    for by_name, by_position in pairs:
        one = explain(lambda x, f=by_name: f(*split(x)), x, name)
        two = explain(lambda x, f=by_position: f(*split(x)), x, name)
        torch.testing.assert_close(one.relevance["x"], two.relevance["x"], **CLOSE)
        torch.testing.assert_close(books(one), ZERO.expand(2), **CLOSE)


def test_a_rounded_quotient_is_a_constant() -> None:
    x = normal(2, 4)
    run = lambda x: torch.div(x, 0.5, rounding_mode="floor") + x
    for name in ("gi", "exact"):
        done = explain(run, x, name)
        torch.testing.assert_close(done.relevance["x"], reference(lambda x: x, x), **CLOSE)
        torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


def test_a_product_of_three_is_cut_in_three() -> None:
    x = normal(2, 3, 4)
    done = explain(lambda x: torch.einsum("bi,bi,bi->bi", x[:, 0], x[:, 1], x[:, 2]), x)
    torch.testing.assert_close(done.inputs, done.target, **CLOSE)
    shares = done.relevance["x"].sum(-1)
    torch.testing.assert_close(shares, shares.mean(1, keepdim=True).expand_as(shares), **CLOSE)


def test_a_chain_of_one_origin_is_an_activation_whatever_its_length() -> None:
    """x·σ(1.702 x): a GELU of some models. Under `exact` the relevance is the value itself."""
    x = normal(2, 4)
    done = explain(lambda x: x * torch.sigmoid(1.702 * x), x)
    torch.testing.assert_close(done.inputs, done.target, **CLOSE)
    two_inputs = explain(lambda x: x[:, :2] * torch.sigmoid(x[:, 2:]), x)
    constant = reference(lambda x: x[:, :2] * 0.25, x).sum(1)  # σ(0) = ½, of which the product's halves keep ½
    torch.testing.assert_close(two_inputs.sinks["constant"], constant, **CLOSE)


def test_solving_holds_the_system_constant() -> None:
    x = normal(2, 3, 3) + 3 * torch.eye(3, dtype=torch.float64)
    done = explain(lambda x: torch.linalg.solve(x, x[:, :, :1]), x)
    torch.testing.assert_close(
        done.relevance["x"], reference(lambda x: torch.linalg.inv(x).detach() @ x[:, :, :1], x), **CLOSE
    )


def test_the_temperature_of_scores_is_no_gate() -> None:
    """q·k / √d: the scale belongs to neither side."""
    x = normal(2, 3, 4)
    run = lambda x: torch.softmax((x @ x.transpose(1, 2)) / math.sqrt(4), -1) @ x
    done = explain(run, x, recipes["attn_lrp"])
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


@pytest.mark.parametrize("act", [F.silu, F.gelu, F.mish, F.hardswish])
def test_a_gated_product_keeps_two_tensors(act) -> None:
    """act(g) · u under slope and half: ∂g = ∂y u s / 2 and ∂u = ∂y act(g) / 2, s = act(g) / g, from g and u alone."""
    x = normal(2, 2, 5)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
        done = explain(lambda x: act(x[:, 0]) * x[:, 1], x, "exact")
    g, u = x[:, 0], x[:, 1]
    grad = seed_for(g)
    wanted = torch.stack([grad * u * act(g) / 2, grad * u * act(g) / 2], 1)
    torch.testing.assert_close(done.relevance["x"], wanted, rtol=1e-6, atol=1e-8)
    assert len(set(kept)) == 3  # the third are the weights of the target
