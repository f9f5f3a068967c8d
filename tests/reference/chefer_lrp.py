"""Layer-wise relevance of Chefer, Gur & Wolf (CVPR 2021) through a BERT and a ViT classifier, step by step by hand.

One example at a time, in float64: the forward pass keeps what each step computed, the backward pass carries relevance
through the steps in reverse. Returned is the relevance of each layer's attention map, first layer first.

    linear, convolution   R_i = Σ_j (x_i w_ij)⁺ / Σ_i' (x_i' w_i'j)⁺ R_j, the bias ignored   [eq. 3]
    a + b                 x ⊙ R / (a + b) for each side x, then rescaled to its share of |Σ|     [eq. 7–9]
    A @ B                 x ⊙ ∂(A @ B)/∂x R / (A @ B) for each side x, halved
    softmax, norms, GELU, tanh, scaling   identity
    a value used twice    the sum
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["add_rule", "bert_relevance", "convolution_rule", "linear_rule", "matmul_rule", "vit_relevance"]


def divided(a: Tensor, b: Tensor) -> Tensor:
    """a / b, the public code's 1e-9 away from zero, on the side of b's sign."""
    return a / (b + torch.where(b < 0, -1e-9, 1e-9))


# -- the rules -------------------------------------------------------------------------------------------------------


def linear_rule(x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    """x (…, in), weight (out, in), relevance (…, out)."""
    contributions = (x.unsqueeze(-2) * weight).clamp(min=0)  # (…, out, in)
    shares = divided(contributions, contributions.sum(-1, keepdim=True))
    return (shares * relevance.unsqueeze(-1)).sum(-2)


def convolution_rule(pixels: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    """A convolution that cuts (channel, height, width) into patches; relevance (patch, out)."""
    out, channels, height, width = weight.shape
    result = torch.zeros_like(pixels)
    columns = pixels.shape[2] // width
    for patch, r in enumerate(relevance):
        top, left = patch // columns * height, patch % columns * width
        cut = pixels[:, top : top + height, left : left + width]
        part = linear_rule(cut.reshape(-1), weight.reshape(out, -1), r)
        result[:, top : top + height, left : left + width] = part.reshape(channels, height, width)
    return result


def add_rule(a: Tensor, b: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Both sides of a + b. Together they have ΣR, each |Σ| of its part, whatever the signs."""
    share = divided(relevance, a + b)
    r_a, r_b = a * share, b * share
    size_a, size_b = r_a.sum().abs(), r_b.sum().abs()
    whole = relevance.sum()
    return (
        r_a * (size_a / (size_a + size_b) * whole / r_a.sum()),
        r_b * (size_b / (size_a + size_b) * whole / r_b.sum()),
    )


def matmul_rule(a: Tensor, b: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Both sides of a @ b, half of the relevance each."""
    share = divided(relevance, a @ b)
    return a * (share @ b.transpose(-1, -2)) / 2, b * (a.transpose(-1, -2) @ share) / 2


# -- attention, which both models have ---------------------------------------------------------------------------------


def split(x: Tensor, heads: int) -> Tensor:
    """(token, hidden) to (head, token, size)."""
    return x.reshape(len(x), heads, -1).transpose(0, 1)


def join(x: Tensor) -> Tensor:
    """(head, token, size) to (token, hidden)."""
    return x.transpose(0, 1).reshape(x.shape[1], -1)


@dataclass
class Attention:
    """Multi-head attention of one sequence, and the relevance of its map and its input."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear
    heads: int

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        self.q, self.k, self.v = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        self.scaled = self.q / math.sqrt(self.q.shape[-1])
        self.map = torch.softmax(self.scaled @ self.k.transpose(-1, -2), -1)
        self.mixed = join(self.map @ self.v)
        return self.output(self.mixed)

    def backward(self, relevance: Tensor) -> tuple[Tensor, Tensor]:
        """Relevance of the map, and of the input (which is used three times)."""
        r_mixed = split(linear_rule(self.mixed, self.output.weight, relevance), self.heads)
        r_map, r_v = matmul_rule(self.map, self.v, r_mixed)
        r_q, r_k_transposed = matmul_rule(self.scaled, self.k.transpose(-1, -2), r_map)  # softmax: identity
        parts = ((self.query, r_q), (self.key, r_k_transposed.transpose(-1, -2)), (self.value, r_v))
        return r_map, sum(linear_rule(self.x, layer.weight, join(r)) for layer, r in parts)


@dataclass
class FeedForward:
    first: nn.Linear
    second: nn.Linear

    def forward(self, x: Tensor) -> Tensor:
        self.x, self.hidden = x, F.gelu(self.first(x))
        return self.second(self.hidden)

    def backward(self, relevance: Tensor) -> Tensor:
        return linear_rule(self.x, self.first.weight, linear_rule(self.hidden, self.second.weight, relevance))


# -- the models ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def bert_relevance(module: nn.Module, ids: Tensor, target: int) -> list[Tensor]:
    """R_A (head, query, key) per layer for one sequence of ids, BertForSequenceClassification in float64."""
    bert, heads = module.bert, module.config.num_attention_heads
    blocks = []
    x = bert.embeddings(input_ids=ids[None])[0]
    for layer in bert.encoder.layer:
        own = layer.attention.self
        attention = Attention(own.query, own.key, own.value, layer.attention.output.dense, heads)
        feed_forward = FeedForward(layer.intermediate.dense, layer.output.dense)
        attended = attention.forward(x)
        middle = layer.attention.output.LayerNorm(attended + x)
        changed = feed_forward.forward(middle)
        blocks.append((attention, feed_forward, x, attended, middle, changed))
        x = layer.output.LayerNorm(changed + middle)
    first = x[0]
    pooled = torch.tanh(bert.pooler.dense(first))
    check_logits(module.classifier(pooled), module(input_ids=ids[None]).logits[0])

    seed = one_hot(module.classifier.out_features, target)
    r_pooled = linear_rule(pooled, module.classifier.weight, seed)
    relevance = torch.zeros_like(x)
    relevance[0] = linear_rule(first, bert.pooler.dense.weight, r_pooled)
    maps = []
    for attention, feed_forward, x, attended, middle, changed in reversed(blocks):
        r_changed, r_middle = add_rule(changed, middle, relevance)
        r_middle = r_middle + feed_forward.backward(r_changed)
        r_attended, r_x = add_rule(attended, x, r_middle)
        r_map, r_input = attention.backward(r_attended)
        maps.insert(0, r_map)
        relevance = r_x + r_input
    return maps


@torch.no_grad()
def vit_relevance(module: nn.Module, pixels: Tensor, target: int) -> tuple[list[Tensor], Tensor]:
    """R_A per layer for one image (channel, height, width), and the relevance of its pixels."""
    vit, heads = module.vit, module.config.num_attention_heads
    blocks = []
    x = vit.embeddings(pixels[None])[0]
    for layer in vit.layers:
        own = layer.attention
        attention = Attention(own.q_proj, own.k_proj, own.v_proj, own.o_proj, heads)
        feed_forward = FeedForward(layer.mlp.fc1, layer.mlp.fc2)
        attended = attention.forward(layer.layernorm_before(x))
        middle = attended + x
        changed = feed_forward.forward(layer.layernorm_after(middle))
        blocks.append((attention, feed_forward, x, attended, middle, changed))
        x = changed + middle
    first = vit.layernorm(x)[0]
    check_logits(module.classifier(first), module(pixels[None]).logits[0])

    relevance = torch.zeros_like(x)
    seed = one_hot(module.classifier.out_features, target)
    relevance[0] = linear_rule(first, module.classifier.weight, seed)
    maps = []
    for attention, feed_forward, x, attended, middle, changed in reversed(blocks):
        r_changed, r_middle = add_rule(changed, middle, relevance)
        r_middle = r_middle + feed_forward.backward(r_changed)
        r_attended, r_x = add_rule(attended, x, r_middle)
        r_map, r_input = attention.backward(r_attended)
        maps.insert(0, r_map)
        relevance = r_x + r_input
    # The class token is a parameter; positions are constants that are added, so patches keep their relevance.
    projection = vit.embeddings.patch_embeddings.projection
    return maps, convolution_rule(pixels, projection.weight, relevance[1:])


def one_hot(size: int, place: int) -> Tensor:
    return torch.eye(size, dtype=torch.float64)[place]


def check_logits(ours: Tensor, theirs: Tensor) -> None:
    """The hand-made forward pass must be the model's own."""
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)
