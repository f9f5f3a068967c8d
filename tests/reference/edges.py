"""A transformer whose nodes each add up what they read, edge by edge: what an edge is, written out.

Every node (head, MLP, output) reads Σ_u c[u → v], with c[u → v] the output of node u. Patching an edge changes that one
summand [path patching, Wang et al. 2023]; its estimate is the gradient at that summand [edge attribution patching, Syed
et al. 2023].
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEADS, WIDTH, SIZE = 2, 3, 6


class Layer(nn.Module):
    """Attention of two heads and an MLP, each added to the stream, with norms before them."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(SIZE, SIZE) for _ in range(3))
        self.out, self.up, self.down = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 8), nn.Linear(8, SIZE)
        self.first, self.second = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.first(x)
        q, k, v = (
            layer(normed).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Stream(nn.Module):
    """Ids (text, token) to two logits."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(20, SIZE)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(SIZE), nn.Linear(SIZE, 2)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x[:, -1]))


Contributions = dict[str, Tensor]
Wires = dict[tuple[str, str], Tensor]
"""By edge, what is read in place of what the source gives."""


def nodes(model: Stream) -> list[str]:
    made = ["input"]
    for n in range(len(model.layers)):
        made += [*(f"layer {n} head {h}" for h in range(HEADS)), f"layer {n} mlp"]
    return made


def run(model: Stream, ids: Tensor, wires: Wires, seen: Wires | None = None) -> tuple[Tensor, Contributions]:
    """The first logit, and what each node gives to the stream; biases of `out` are in no node. `seen` notes edges."""
    given: Contributions = {"input": model.words(ids)}
    constant = torch.zeros(SIZE, dtype=given["input"].dtype)

    def read(node: str) -> Tensor:
        total = constant
        for source, value in given.items():
            part = wires.get((source, node), value) * 1
            if seen is not None:
                part.retain_grad()
                seen[source, node] = part
            total = total + part
        return total

    for n, layer in enumerate(model.layers):
        now = {}
        for h in range(HEADS):
            name, own = f"layer {n} head {h}", slice(h * WIDTH, (h + 1) * WIDTH)
            normed = layer.first(read(name))
            q, k, v = (part(normed)[..., own] for part in (layer.query, layer.key, layer.value))
            mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
            scores = (q @ k.transpose(-1, -2) / WIDTH**0.5).masked_fill(~mask, -torch.inf)
            now[name] = torch.softmax(scores, -1) @ v @ layer.out.weight[:, own].T
        given |= now  # heads of a layer do not read each other
        constant = constant + layer.out.bias
        name = f"layer {n} mlp"
        given[name] = layer.down(F.gelu(layer.up(layer.second(read(name)))))
    return model.head(model.norm(read("target")[:, -1]))[0, 0], given


def edges(model: Stream, clean: Tensor, corrupt: Tensor) -> tuple[dict, dict]:
    """By edge, the estimate and the truth of patching it in the clean run."""
    seen: Wires = {}
    base, own = run(model, clean, {}, seen)
    base.backward()
    with torch.no_grad():
        _, other = run(model, corrupt, {})
        estimate = {e: ((other[e[0]] - own[e[0]]) * part.grad).sum().item() for e, part in seen.items()}
        truth = {e: (run(model, clean, {e: other[e[0]]})[0] - base).item() for e in seen}
    return estimate, truth


@torch.no_grad()
def circuit(model: Stream, clean: Tensor, corrupt: Tensor, keep: set[tuple[str, str]]) -> float:
    """The first logit where all edges but those that are kept bring what the corrupt run sends."""
    _, other = run(model, corrupt, {})
    names = [*nodes(model), "target"]
    wires = {(a, b): other[a] for a in names[:-1] for b in names if (a, b) not in keep}
    return run(model, clean, wires)[0].item()
