"""FlashTrace [Pan et al. 2026, arXiv 2602.01914], written anew to stand beside our methods.

Taken from the paper's abstract and the authors' code (github.com/wbopan/flashtrace, `flashtrace/core.py`, the functions
`compute_ifr_sentence_aggregate` and `compute_multi_hop_ifr`): the quantities below. The measure of nearness is that of
information flow routes [Ferrando & Voita 2024]. Left out: the list of stop words that their package drops by default.

For written tokens S with weights w, in each layer, with x the residual stream behind attention, x⁰ the one before it,
and c_jh what head h brings from token j to S,

    x_S = Σ_i w_i x_i        c_jh = Σ_i w_i α_hij O_h v_hj        near(a) = max(0, ‖x_S‖₁ − ‖a − x_S‖₁)
    share_j = Σ_h near(c_jh) / (Σ_jh near(c_jh) + near(Σ_i w_i x⁰_i))

and the importance of token j is the sum of its shares over layers. In a hop, S is the reasoning T, weighted by its own
importance; what that gives for the prompt is added, times the part of all importance that lay on T.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Layer", "importance", "layers_of", "recursive"]


class Layer(NamedTuple):
    """What attention does in one layer."""

    before: Tensor
    """x⁰: (place, width)"""
    behind: Tensor
    """x: (place, width)"""
    brought: Tensor
    """O_h v_hj: (place, head, width)"""
    weights: Tensor
    """α: (head, to, from)"""


@torch.no_grad()
def layers_of(module: Any, ids: Tensor) -> list[Layer]:
    """The layers of a model of Llama's kind on one text."""
    blocks, seen = module.model.layers, {}
    hooks = []
    for n, block in enumerate(blocks):
        keep = lambda name, n=n: lambda _, given, made: seen.update({(n, name): (given[0][0], made[0])})
        hooks += [
            block.input_layernorm.register_forward_hook(keep("before")),
            block.post_attention_layernorm.register_forward_hook(keep("behind")),
            block.self_attn.v_proj.register_forward_hook(keep("values")),
        ]
    try:
        with _attending_openly(module):
            found = module(input_ids=ids[None], output_attentions=True, use_cache=False).attentions
    finally:
        for hook in hooks:
            hook.remove()
    return [
        Layer(
            seen[n, "before"][0],
            seen[n, "behind"][0],
            _brought(seen[n, "values"][1], block.self_attn, weights.shape[1]),
            weights[0],
        )
        for n, (block, weights) in enumerate(zip(blocks, found, strict=True))
    ]


def _brought(values: Tensor, attention: Any, heads: int) -> Tensor:
    """(place, head, width): what each head would bring from a place if it saw nothing else."""
    out = attention.o_proj.weight
    blocks = out.view(len(out), heads, -1)
    own = values.view(len(values), -1, blocks.shape[-1])
    own = own.repeat_interleave(heads // own.shape[1], 1)
    return torch.einsum("jhd,khd->jhk", own, blocks)


@contextmanager
def _attending_openly(module: Any) -> Iterator[None]:
    """Attention in a way that shows its weights."""
    before = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        yield
    finally:
        module.set_attn_implementation(before)


def importance(layers: list[Layer], sinks: range, weights: Tensor | None = None) -> Tensor:
    """(place,): how near what each token brings is to what the tokens `sinks` hold, added over layers."""
    own = slice(sinks.start, sinks.stop)
    some = layers[0].before
    factors = torch.ones(len(sinks), device=some.device, dtype=some.dtype) if weights is None else weights
    found = torch.zeros(len(some), device=some.device, dtype=some.dtype)
    for layer in layers:
        held = factors @ layer.behind[own]
        size = held.abs().sum()
        seen = torch.einsum("i,hij->jh", factors, layer.weights[:, own])
        near = (size - (seen[..., None] * layer.brought - held).abs().sum(-1)).clamp(min=0).sum(1)
        kept = (size - (factors @ layer.before[own] - held).abs().sum()).clamp(min=0)
        found += near / (near.sum() + kept + 1e-12)
    return found


def recursive(layers: list[Layer], prompt: int, reasoning: range, answer: range, hops: int, shift: int = 0) -> Tensor:
    """(place,): importance for the answer of the first `prompt` tokens, through the reasoning; 0 behind them.

    With `shift` 0, as published, an answer is explained at its own tokens; with 1 at those that predict them.
    """
    found = importance(layers, _shifted(answer, shift))
    total, part = found.clone(), 1.0
    for _ in range(hops if reasoning else 0):
        held = found[reasoning.start : reasoning.stop]
        if held.sum() <= 0:
            break
        part *= float(held.sum() / found.sum())
        found = importance(layers, _shifted(reasoning, shift), held / held.sum())
        total += part * found
    total[prompt:] = 0
    return total


def _shifted(places: range, shift: int) -> range:
    return range(places.start - shift, places.stop - shift)
