"""The one place of divisions."""

from __future__ import annotations

import pytest
import torch

from tests.core.helpers import normal
from whence.core.numerics import divide, stabilise, widened

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_is_moved_and_signs_are_kept(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -1.0], dtype=dtype)
    moved = stabilise(x)
    assert (moved[:2] > 0).all()
    assert torch.equal(moved[2:].sign(), x[2:].sign())
    assert torch.isfinite(divide(torch.zeros_like(x), x)).all()
    torch.testing.assert_close(moved[2:], x[2:], rtol=2 * torch.finfo(dtype).eps, atol=0)  # one rounding


def test_epsilon_is_exact_in_the_dtype_of_the_denominator() -> None:
    """0.3 in float32 is 0.30000001: a float64 denominator must not meet it."""
    x = torch.tensor([0.0, 2.0, -2.0], dtype=torch.float64)
    assert stabilise(x, 0.3).tolist() == [0.3, 2.3, -2.3]


def test_division_away_from_zero_is_division() -> None:
    a, b = normal(20), normal(20, seed=1)
    torch.testing.assert_close(divide(a, b), a / b, rtol=1e-15, atol=0)  # ε² = 5e-32 is below any rounding here


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_half_precision_is_widened(dtype: torch.dtype) -> None:
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    assert widened(torch.ones(2, dtype=dtype)).dtype == expected
