"""Activations f(x) and gated products f(x) · u: their gradients from one pass, against the formula."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.core.helpers import normal
from whence.core.batch import Batch
from whence.core.kernels import triton_kernels
from whence.core.propagation import propagate
from whence.core.recipe import recipes

ACTIVATIONS = [("silu", {}), ("gelu", {}), ("gelu", {"approximate": "tanh"})]


def slope(name: str, options: dict[str, str], x: Tensor) -> Tensor:
    return getattr(F, name)(x.double(), **options) / x.double()


@pytest.mark.parametrize(("name", "options"), ACTIVATIONS)
def test_the_kernel_for_gpus(name, options):
    kernels = triton_kernels("triton_gate")
    if kernels is None:
        pytest.skip("Triton is not installed")
    x, u, grad = (3 * normal(5, 700, seed=n, dtype=torch.float16) for n in range(3))
    through_x, through_u = kernels.gradients(name, options, x, u, grad, 0.5)
    wanted = 0.5 * slope(name, options, x) * grad.double()
    torch.testing.assert_close(through_x.double(), wanted * u, rtol=2e-3, atol=1e-3)
    torch.testing.assert_close(through_u.double(), wanted * x, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "options"), ACTIVATIONS)
def test_the_kernel_of_an_activation(name, options):
    kernels = triton_kernels("triton_gate")
    if kernels is None:
        pytest.skip("Triton is not installed")
    x, grad = (3 * normal(5, 700, seed=n, dtype=torch.float16) for n in range(2))
    wanted = slope(name, options, x) * grad.double()
    torch.testing.assert_close(kernels.sloped(name, options, x, grad).double(), wanted, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("name", "options"), ACTIVATIONS)
def test_slopes_in_half_precision_are_rounded_once(name, options, dtype):
    """Once for the slope and once for the product, however small the slope is: at most a unit in the last place each
    (and half of what float16 has below its normal numbers)."""
    x = torch.linspace(-4, 4, 257).to(dtype)
    found = propagate(
        lambda inputs: getattr(F, name)(inputs["x"], **options).sum(1), Batch.of({"x": x[None]}, "x"),
        target=lambda y: y, recipe=recipes["exact"], receipt="short",
    ).relevance["x"][0].double()  # fmt: skip
    wanted = getattr(F, name)(x.double(), **options)
    torch.testing.assert_close(found, wanted, rtol=1.1 * torch.finfo(dtype).eps, atol=1e-6)


def test_the_kernel_takes_half_precision_alone():
    kernels = triton_kernels("triton_gate")
    if kernels is None:
        pytest.skip("Triton is not installed")
    half = torch.zeros(4, 6, dtype=torch.bfloat16)
    assert kernels.takes(half, half)
    assert not kernels.takes(half, half.float())
    assert not kernels.takes(half.T, half)


@pytest.mark.parametrize(("name", "options"), ACTIVATIONS)
def test_plain_gradients_keep_the_factors_alone(name, options):
    """Gradient×Input through f(x) · u is autograd's own, and holds two tensors: f(x) is computed again."""
    weights = normal(2, 4, 6, seed=1)
    x = normal(1, 3, 4, seed=2)
    act = getattr(F, name)

    def run(x: Tensor) -> Tensor:
        return (act(x @ weights[0], **options) * (x @ weights[1])).sum(-1)

    held: set[int] = set()

    def keep(t: Tensor) -> Tensor:
        if t.shape == (1, 3, 6):
            held.add(t.data_ptr())
        return t

    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(run(leaf).sum(), leaf)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        found = propagate(
            lambda inputs: run(inputs["x"]), Batch.of({"x": x}, "x"), target=lambda y: y.sum(-1), recipe=recipes["gi"],
            receipt="short",
        )  # fmt: skip
    torch.testing.assert_close(found.relevance["x"].double(), wanted * x)
    assert len(held) == 2


def test_an_activation_that_is_zero_at_zero_books_nothing():
    """However it is called: what is booked costs a pass over it."""
    x = normal(1, 3, 4, seed=2)
    found = propagate(
        lambda inputs: F.silu(inputs["x"], inplace=False).sum((1, 2)), Batch.of({"x": x}, "x"), target=lambda y: y,
        recipe=recipes["exact"],
    )  # fmt: skip
    assert not found.sinks
