"""Partway patching, slowly: hooks on a model, the path in small steps, each place and token by itself.

    effect = Δ · (1/r) ∫₀ʳ ∂f/∂a (x + s (x′ − x)) ds,    r = ⟨Δ, D⟩ / ⟨D, D⟩ within 0 and 1

at every token. Gradients are known at 0, 1/steps, …, 1 and straight in between.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

FINE = 4000


def partway(
    module: nn.Module, names: dict[str, str], ids: tuple[Tensor, Tensor], score: Callable[[Tensor], Tensor], steps: int,
    heads: int, layers: int,
) -> dict[str, np.ndarray]:  # fmt: skip
    """By kind, (layer, part). `names` says by kind which module of layer {} gives it; heads come into theirs."""
    embed = module.get_input_embeddings()
    ends = [embed(one).detach() for one in ids]
    passes = [_crossed(module, names, torch.lerp(*ends, step / steps), score, layers) for step in range(steps + 1)]
    found: dict[str, list[list[float]]] = {kind: [] for kind in names}
    for layer in range(layers):
        moved = {kind: passes[-1][kind, layer][0] - passes[0][kind, layer][0] for kind in names}
        stream = moved["layers"]
        for kind in names:
            slopes = [seen[kind, layer][1] for seen in passes]
            tokens, width = moved[kind].shape
            row = np.zeros((heads, tokens)) if kind == "heads" else np.zeros((tokens, 1))
            for token in range(tokens):
                whole = float(stream[token] @ stream[token])
                if kind == "heads":
                    own, attention = moved[kind][token], moved["attentions"][token]
                    around = min(1.0, max(0.0, float(attention @ stream[token]) / whole)) if whole else 0.0
                    for head in range(heads):
                        part = slice(head * width // heads, (head + 1) * width // heads)
                        square = float(own[part] @ own[part]) / float(own @ own) if float(own @ own) else 0.0
                        values = [float(own[part] @ slope[token][part]) for slope in slopes]
                        row[head, token] = _mean(values, around * square)
                else:
                    own = moved[kind][token]
                    reach = min(1.0, max(0.0, float(own @ stream[token]) / whole)) if whole else 0.0
                    row[token] = _mean([float(own @ slope[token]) for slope in slopes], reach)
            found[kind].append(row.sum(1).tolist())
    return {kind: np.array(rows) for kind, rows in found.items()}


def _mean(values: list[float], reach: float) -> float:
    """The mean over [0, reach] of what is straight between the values, by many points."""
    points = (np.arange(FINE) + 0.5) / FINE * reach
    return float(np.interp(points, np.linspace(0, 1, len(values)), values).mean())


def _crossed(
    module: nn.Module, names: dict[str, str], embeddings: Tensor, score: Callable[[Tensor], Tensor], layers: int
) -> dict[tuple[str, int], tuple[Tensor, Tensor]]:
    """By kind and layer, the value and its gradient: (token, …)."""
    held: dict[tuple[str, int], Tensor] = {}
    handles = []
    for kind, name in names.items():
        for layer in range(layers):
            place = module.get_submodule(name.format(layer))

            def keep(_: nn.Module, args: tuple[Tensor, ...], out: object = None, key: tuple[str, int] = (kind, layer)):
                value = args[0] if out is None else out[0] if isinstance(out, tuple) else out
                value.retain_grad()
                held[key] = value

            handles.append(
                place.register_forward_pre_hook(keep) if kind == "heads" else place.register_forward_hook(keep)
            )
    try:
        score(module(inputs_embeds=embeddings.clone().requires_grad_()).logits).backward()
    finally:
        for handle in handles:
            handle.remove()
    return {key: (value.detach()[0], value.grad[0]) for key, value in held.items()}
