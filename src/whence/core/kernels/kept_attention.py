"""Fused attention with its ordinary gradient, whose result is kept where a block runs again for the backward pass.

And whoever wants to is shown the map with its gradient on the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.core.backward import on_gradient
from whence.core.kernels.attention_map import AttentionOperator, Kernel, readable
from whence.core.kernels.layer_map import FusedMap
from whence.core.memory import remembered

__all__ = ["Shown", "kept_attention"]

Shown = Callable[[FusedMap], None]


class _KeptAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, operator: AttentionOperator, kernel: Kernel, shown: Shown | None
    ) -> Tensor:
        made: tuple[Tensor, Tensor, tuple[Any, ...]] = remembered(lambda: operator.run(v, kernel))
        out, lse, rest = made
        ctx.save_for_backward(q, k, v, out, lse, operator.mask)
        ctx.rest, ctx.kernel, ctx.shown = rest, kernel, shown
        ctx.causal, ctx.scale = operator.causal, operator.scale
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        q, k, v, out, lse, mask = ctx.saved_tensors
        operator = AttentionOperator(q, k, mask, ctx.causal, ctx.scale, lse)
        with torch.no_grad():
            if ctx.shown is not None:
                ctx.shown(FusedMap(operator, v, grad))
            return (*operator.backward(grad, v, out, ctx.kernel, ctx.rest), None, None, None)


def kept_attention(operator: AttentionOperator, v: Tensor, shown: Shown | None = None) -> Tensor:
    """P v, differentiable in queries, keys and values."""
    kernel = operator.kernel(v)
    if kernel is not None:
        plain = replace(operator, q=operator.q.detach(), k=operator.k.detach())
        made: Tensor = _KeptAttention.apply(operator.q, operator.k, v, plain, kernel, shown)  # type: ignore[no-untyped-call]
        return made
    rest: dict[str, Any] = {"is_causal": operator.causal, "scale": operator.scale, "enable_gqa": operator.group > 1}
    out = F.scaled_dot_product_attention(operator.q, operator.k, v, attn_mask=readable(operator.mask), **rest)
    if shown is not None and out.requires_grad:
        plain, values = replace(operator, q=operator.q.detach(), k=operator.k.detach()), v.detach()
        on_gradient(out, lambda grad: shown(FusedMap(plain, values, grad)))
    return out
