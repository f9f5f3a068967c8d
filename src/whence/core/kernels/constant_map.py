"""Fused attention whose map is a constant: its backward pass is Pᵀ ∂out, two products in place of five."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whence.core.kernels.attention_map import AttentionOperator
from whence.core.memory import remembered

__all__ = ["with_constant_map"]


class _ConstantMap(torch.autograd.Function):
    """Keeps q, k and one number per query; neither the values nor the result."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, operator: AttentionOperator) -> Tensor:
        out: Tensor
        out, lse = remembered(lambda: operator.attend(v))
        tensors, ctx.rest = replace(operator, lse=lse).saved()
        ctx.save_for_backward(*tensors)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        rest = dict(ctx.rest)
        held = dict(zip(rest.pop("names"), ctx.saved_tensors, strict=True))
        operator = AttentionOperator(**held, **rest)
        if torch.is_grad_enabled() and grad.requires_grad:  # this pass is differentiated in turn: no kernel knows how
            return operator.in_chunks(grad), None
        with torch.no_grad():
            return operator.transposed(grad), None


def with_constant_map(operator: AttentionOperator, v: Tensor) -> Tensor:
    """P v, linear in v."""
    made: Tensor = _ConstantMap.apply(v, operator)  # type: ignore[no-untyped-call]
    return made
