"""Layer norm with a constant deviation: its backward pass in one pass, against the formula."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.core.helpers import normal
from whence.core.backward import detached_layer_norm
from whence.core.kernels import triton_kernels

CASES = [(7, 5), (3, 48), (2, 700), (1, 4100)]
"""Rows and columns: several rows to a program, one, and a row that is wider than a tile."""


def wanted(grad: Tensor, weight: Tensor | None, rstd: Tensor, through_mean: bool) -> Tensor:
    """(g - E[g]) / deviation with g = grad · weight, in float64."""
    g = grad.double() if weight is None else grad.double() * weight.double()
    return (g - g.mean(-1, keepdim=True) if through_mean else g) * rstd.double()


@pytest.mark.parametrize("through_mean", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_kernel_for_gpus(dtype, shape, weighted, through_mean):
    kernels = triton_kernels("triton_norm")
    if kernels is None:
        pytest.skip("Triton is not installed")
    grad = normal(*shape, seed=1, dtype=dtype)
    weight = normal(shape[1], seed=2, dtype=dtype) if weighted else None
    rstd = normal(shape[0], 1, seed=3, dtype=torch.float32).abs() + 0.1
    found = kernels.normed(grad, weight, rstd, shape[1], through_mean=through_mean)
    assert found.dtype == dtype
    right = wanted(grad, weight, rstd, through_mean)
    near = {torch.float32: 1e-5, torch.float16: 2e-3}[dtype]
    torch.testing.assert_close(found.double(), right, rtol=near, atol=near)


def test_the_kernel_leaves_what_it_can_not_hold():
    kernels = triton_kernels("triton_norm")
    if kernels is None:
        pytest.skip("Triton is not installed")
    assert kernels.takes(torch.zeros(2, 8), 8)
    assert not kernels.takes(torch.zeros(2, 8).double(), 8)
    assert not kernels.takes(torch.zeros(2, 8), kernels.WIDEST + 1)


@pytest.mark.parametrize("through_mean", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_the_gradient_once(dtype, through_mean):
    """And never the deviation, which all of a row has in common. Axes of the norm may be several."""
    x = (3 * normal(6, 4, 10, seed=1, dtype=torch.float32)).to(dtype)
    weight, bias = normal(4, 10, seed=2, dtype=dtype), normal(4, 10, seed=3, dtype=dtype)
    leaf = x.clone().requires_grad_()
    grad = normal(6, 4, 10, seed=4, dtype=dtype)
    y = detached_layer_norm(leaf, (4, 10), weight, bias, 1e-5, through_mean=through_mean)
    (found,) = torch.autograd.grad(y, leaf, grad)
    rstd = (x.double().flatten(1).var(1, correction=0) + 1e-5).rsqrt()[:, None]
    right = wanted(grad.flatten(1), weight.flatten(), rstd, through_mean).view_as(x)
    size = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), right, rtol=size / 2 * 1.01, atol=1e-5)
