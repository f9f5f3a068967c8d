"""Attention maps and gradients from transformers' own eager attention and autograd: what capture must agree with."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Seen", "double", "eager_maps", "one", "plain_encoder_maps"]


class Seen(NamedTuple):
    """One tensor per layer, first layer first."""

    maps: list[Tensor]
    gradients: list[Tensor]

    def of(self, n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Arrays of example `n`."""
        return [a[n].numpy() for a in self.maps], [g[n].numpy() for g in self.gradients]


def double(module: nn.Module) -> nn.Module:
    """A copy in float64."""
    return copy.deepcopy(module).double().eval()


def _eager(module: nn.Module) -> nn.Module:
    module = double(module)
    module.set_attn_implementation("eager")
    return module


def eager_maps(
    module: nn.Module,
    inputs: dict[str, Tensor],
    target: Callable[[Any], Tensor],
    fields: tuple[str, ...] = ("attentions",),
) -> dict[str, Seen]:
    """Per field of the output: maps and ∂ target / ∂ map, in float64."""
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    outputs = _eager(module)(**inputs, output_attentions=True)
    found = {name: list(getattr(outputs, name)) for name in fields}
    every = [a for maps in found.values() for a in maps]
    grads = iter(torch.autograd.grad(target(outputs).sum(), every, allow_unused=True))
    made = {}
    for name, maps in found.items():
        gradients = [torch.zeros_like(a) if (g := next(grads)) is None else g for a in maps]
        made[name] = Seen([a.detach() for a in maps], gradients)
    return made


def plain_encoder_maps(encoder: nn.TransformerEncoder, x: Tensor, target: Callable[[Tensor], Tensor]) -> Seen:
    """The same of an nn.TransformerEncoder with post-norm, batch first, by hand; `target` takes its output."""
    maps = []
    for layer in encoder.layers:
        own = layer.self_attn
        q, k, v = F.linear(x, own.in_proj_weight, own.in_proj_bias).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (own.num_heads, -1)).transpose(1, 2) for t in (q, k, v))
        a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        maps.append(a)
        x = layer.norm1(x + own.out_proj((a @ v).transpose(1, 2).flatten(2)))
        x = layer.norm2(x + layer.linear2(F.relu(layer.linear1(x))))
    grads = torch.autograd.grad(target(x).sum(), maps)
    return Seen([a.detach() for a in maps], list(grads))


def one(inputs: dict[str, Tensor], n: int) -> dict[str, Tensor]:
    """Example `n` of a batch, as a batch of one."""
    return {k: v[n : n + 1] for k, v in inputs.items()}
