"""Sums over the rows and columns of a map that nobody writes down, against the map written down."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.core.helpers import CLOSE, normal
from tests.core.kernels.cases import MASKS, SHAPES, operator, written_down
from whence.core.kernels import attention_map, triton_kernels
from whence.core.kernels.layer_map import FusedMap, WrittenMap


def both(shape: str, mask: str, dtype=torch.float64) -> tuple[FusedMap, WrittenMap]:
    made = operator(shape, mask, dtype)
    values, grad = normal(*made.k.shape, seed=5, dtype=dtype), normal(*made.q.shape, seed=6, dtype=dtype)
    gradient = grad.double() @ values.double().repeat_interleave(made.group, 1).mT
    return FusedMap(made, values, grad), WrittenMap(written_down(made), gradient)


def asked(m, weights, keys) -> dict[str, torch.Tensor]:
    """Everything that can be asked of a map."""
    return {
        "columns": m.columns(weights),
        "helpful columns": m.helpful_columns(weights),
        "helpful rows": m.helpful_rows(),
        "gradient": m.gradient_sums(weights, keys),
        "row sums": m.row_sums,
        "read": m.read_rows().double(),
    }


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_fused_map_is_the_map(shape, mask, monkeypatch):
    monkeypatch.setitem(attention_map.CHUNK, "cpu", 1000)
    fused, written = both(shape, mask)
    weights, keys = normal(fused.examples, fused.queries, seed=7), normal(fused.examples, fused.keys, seed=8)
    wanted = asked(written, weights, keys)
    for what, found in asked(fused, weights, keys).items():
        torch.testing.assert_close(found, wanted[what], **CLOSE, msg=what)


def test_a_written_map_by_hand():
    p = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])
    g = torch.tensor([[[[2.0, -1.0], [4.0, 0.0]]]])
    m = WrittenMap(p, g)
    ones = torch.tensor([[1.0, 3.0]])
    assert m.columns(ones).tolist() == [[1.75, 2.25]]
    assert m.helpful_columns(ones).tolist() == [[6.5, 0.0]]
    assert m.helpful_rows().tolist() == [[0.5, 2.0]]
    assert m.gradient_sums(ones, ones).tolist() == [[11.0]]
    assert m.row_sums.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", ["groups", "other keys", "whole blocks"])
def test_triton(shape, mask, dtype):
    kernels = triton_kernels("triton_map")
    if kernels is None:
        pytest.skip("Triton is not installed")
    fused, written = both(shape, mask, dtype)
    weights = normal(fused.examples, fused.queries, seed=7)
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    _, lse = fused.operator.attend(fused.values)
    for made in (fused.operator, replace(fused.operator, lse=lse)):
        found = {
            "columns": (kernels.columns(made, weights), written.columns(weights)),
            "helpful columns": (
                kernels.columns(made, weights, fused.values, fused.out_gradient), written.helpful_columns(weights)
            ),
            "rows": (kernels.rows(made, fused.values, fused.out_gradient), written.helpful_rows()),
        }  # fmt: skip
        for what, (got, right) in found.items():
            torch.testing.assert_close(got.sum(1).double(), right, **near, msg=what)
