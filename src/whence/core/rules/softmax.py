"""Softmax and the attention functions built on it. Fused attention stays fused wherever the recipe allows it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.core.backward import scale_gradient, temperature_softmax
from whence.core.call import Call, Rule, is_tainted, mark_role
from whence.core.kernels.attention_map import AttentionOperator, readable
from whence.core.kernels.constant_map import with_constant_map
from whence.core.kernels.kept_attention import kept_attention
from whence.core.memory import runs_again
from whence.core.recipe import Recipe

__all__ = ["attention_scores", "bound_arguments", "mask_arguments", "multi_head_attention", "repeated", "rules"]


def softmax(call: Call) -> Any:
    """P = softmax(x). Whether it is attention shows when it multiplies something: `products` then says what P is."""
    x = call.argument(0, "input")
    if not is_tainted(x):
        return call.run()
    mode = call.recipe.softmax
    if isinstance(mode, str):
        compute: Callable[[Tensor], Tensor] = call.at
    else:
        dim, dtype = call.argument(1, "dim", -1), _dtype_of(call)
        compute = lambda x: temperature_softmax(x, dim, mode, dtype)
    out = call.measure("softmax", [x], compute)
    if not call.interception.in_target:  # a probability that the caller asks about is no attention
        mark_role(out, "probability")
    return out


def _dtype_of(call: Call) -> torch.dtype | None:
    given = (*call.args[2:], call.kwargs.get("dtype"))
    return next((a for a in given if isinstance(a, torch.dtype)), None)


def log_softmax(call: Call) -> Any:
    """x - [logsumexp(x)]: linear in x, less a constant."""
    x = call.argument(0, "input")
    if not is_tainted(x) or call.recipe.softmax != "detach":
        return call.measure("softmax", [x], call.at)
    x = x.to(_dtype_of(call) or x.dtype)
    shift = torch.logsumexp(x.detach(), call.argument(1, "dim", -1), keepdim=True)
    out = x - shift
    call.book("softmax", out, -shift)
    return out


def fused_attention(call: Call) -> Any:
    """softmax(q kᵀ · scale + mask) v, fused."""
    a = bound_arguments(call)
    q, k, v, mask = a["query"], a["key"], a["value"], a["attn_mask"]
    rest = mask_arguments(a)
    recipe = call.recipe
    if recipe.softmax == "detach":
        v = scale_gradient(v, recipe.values)
        mask = mask.detach() if isinstance(mask, Tensor) else mask
        out = _with_constant_map(q.detach(), k.detach(), v, {**rest, "attn_mask": mask})
        if recipe.values != 1:
            call.book("softmax", out, out.detach() * (1 - recipe.values))
        return out
    attend = _fused if recipe.softmax == "gradient" else _explicit(float(recipe.softmax))
    # A mask that the input made (a gate, a bias of its own) joins behind the product of q and k, as in `products`.
    through_p = recipe.scores / (1.0 if recipe.product == "gradient" else 0.5)

    def compute(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = scale_gradient(q, recipe.scores), scale_gradient(k, recipe.scores), scale_gradient(v, recipe.values)
        mask = mask if mask is None else scale_gradient(mask, through_p)
        return attend(q, k, v, **{**rest, "attn_mask": mask})

    return call.measure("softmax", [q, k, v, mask], compute)


SMALL = 16 * 2**20
"""Bytes of a map up to which it is kept on the CPU, and not computed again in the backward pass."""


def _with_constant_map(q: Tensor, k: Tensor, v: Tensor, rest: dict[str, Any]) -> Tensor:
    """Attention that is linear in v. Fused, so that memory stays linear in the sequence, but for small maps on the CPU,
    which are kept: then its backward pass is one product.
    """
    size = q.shape[:-1].numel() * k.shape[-2] * q.element_size()
    if q.device.type != "cpu" or size > SMALL:
        if not v.requires_grad or not AttentionOperator.takes(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, **rest)
        return with_constant_map(AttentionOperator(q, k, rest["attn_mask"], rest["is_causal"], rest["scale"]), v)
    with torch.no_grad():
        scores = attention_scores(q, k, **rest)
        probabilities = torch.softmax(scores, -1)
        if rest["attn_mask"] is not None:
            probabilities.nan_to_num_(0.0)  # a row that may look nowhere: zero, as in the fused kernel
    return probabilities @ repeated(v, q, rest["enable_gqa"])


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False): ...  # type: ignore[no-untyped-def]


_ATTENTION = inspect.signature(_attention)


def bound_arguments(call: Call) -> dict[str, Any]:
    """The arguments of a fused attention call by name."""
    bound = _ATTENTION.bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    return bound.arguments


def mask_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Everything but query, key, value and dropout."""
    return {n: arguments[n] for n in ("attn_mask", "is_causal", "scale", "enable_gqa")}


def _fused(q: Tensor, k: Tensor, v: Tensor, **rest: Any) -> Tensor:
    mask = rest["attn_mask"]
    if runs_again() and AttentionOperator.takes(q, k, v) and not is_tainted(mask):
        return kept_attention(AttentionOperator(q, k, mask, rest["is_causal"], rest["scale"]), v)
    return F.scaled_dot_product_attention(q, k, v, **{**rest, "attn_mask": readable(mask)})


def _explicit(temperature: float) -> Any:
    def attend(q: Tensor, k: Tensor, v: Tensor, **rest: Any) -> Tensor:
        # a row that may look nowhere (left padding): zero, as in the fused kernel
        p = temperature_softmax(attention_scores(q, k, **rest), -1, temperature).nan_to_num(0.0)
        return p @ repeated(v, q, rest["enable_gqa"])

    return attend


def attention_scores(
    q: Tensor,
    k: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What fused attention hands to its softmax."""
    k = repeated(k, q, enable_gqa)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = (q * scale) @ k.transpose(-2, -1)
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~allowed, -torch.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return scores


def repeated(x: Tensor, q: Tensor, grouped: bool) -> Tensor:
    """Keys or values as often as queries share them."""
    return x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) if grouped else x


def multi_head_attention(call: Call) -> Any:
    """F.multi_head_attention_forward, spelled out: the mode can't look into it."""
    bound = _MULTI_HEAD.bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    a = bound.arguments
    if a["bias_k"] is not None or a["static_k"] is not None or a["add_zero_attn"]:
        return call.interception.without_rule(call)
    with call.interception:
        return _spelled_out(a)


_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


def _spelled_out(a: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
    query, key, value, heads = a["query"], a["key"], a["value"], a["num_heads"]
    single = query.dim() == 2  # (length, hidden): no batch
    if single:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
    length, batch, _ = query.shape
    if a["use_separate_proj_weight"]:
        weights = (a["q_proj_weight"], a["k_proj_weight"], a["v_proj_weight"])
    else:
        weights = a["in_proj_weight"].chunk(3)
    biases = a["in_proj_bias"].chunk(3) if a["in_proj_bias"] is not None else (None,) * 3
    q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    q, k, v = (x.reshape(x.shape[0], batch, heads, -1).permute(1, 2, 0, 3) for x in (q, k, v))
    mask = _combined_mask(a, batch, heads, length, k.shape[-2], q)
    weights_out = None
    if a["need_weights"]:
        p = torch.softmax(attention_scores(q, k, mask), -1)
        out = p @ v
        weights_out = p.mean(1) if a["average_attn_weights"] else p
        weights_out = weights_out.squeeze(0) if single else weights_out
    else:
        out = F.scaled_dot_product_attention(q, k, v, mask)
    out = F.linear(out.permute(2, 0, 1, 3).reshape(length, batch, -1), a["out_proj_weight"], a["out_proj_bias"])
    return (out.squeeze(1) if single else out), weights_out


def _combined_mask(a: dict[str, Any], batch: int, heads: int, length: int, keys: int, like: Tensor) -> Tensor | None:
    mask, padding = a["attn_mask"], a["key_padding_mask"]
    if mask is None and padding is None and not a["is_causal"]:
        return None
    total = torch.zeros((batch, heads, length, keys), dtype=like.dtype, device=like.device)
    if mask is None and a["is_causal"]:
        mask = torch.ones(length, keys, dtype=torch.bool, device=like.device).triu(1)
    if padding is not None:
        padding = padding.reshape(batch, 1, 1, keys)
    if mask is not None and mask.dim() == 3:
        mask = mask.reshape(batch, heads, length, keys)
    for part in (mask, padding):
        if part is not None:
            total = total.masked_fill(part, -torch.inf) if part.dtype == torch.bool else total + part
    return total


def rules(recipe: Recipe) -> dict[str, Rule]:
    return {
        "softmax": softmax,
        "log_softmax": log_softmax,
        "scaled_dot_product_attention": fused_attention,
        "multi_head_attention_forward": multi_head_attention,
    }
