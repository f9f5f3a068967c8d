"""Small transformers, as model authors write them, and the same models with the reference's hand-placed detaches."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.core.helpers import normal
from tests.reference.detached import Rules

__all__ = ["Attention", "Block", "Experts", "Gated", "allowed", "rotation", "seeded"]


def seeded(module: nn.Module, seed: int = 0) -> nn.Module:
    """`module` in float64 and evaluation, with parameters that depend on the seed alone."""
    module = module.double().eval()
    with torch.no_grad():
        for n, p in enumerate(module.parameters()):
            scale = 0.5 if p.dim() < 2 else 1 / math.sqrt(p.shape[-1])
            p.copy_(normal(*p.shape, seed=1000 * seed + n) * scale + (0.7 if p.dim() < 2 else 0.0))
    return module


def allowed(length: int, causal: bool = False, window: int | None = None) -> Tensor | None:
    """Whether position i may look at position j, or None if it may look anywhere."""
    if not causal and window is None:
        return None
    ok = [
        [(not causal or j <= i) and (window is None or abs(i - j) < window) for j in range(length)]
        for i in range(length)
    ]
    return torch.tensor(ok)


def angles(length: int, dim: int) -> Tensor:
    return torch.arange(length, dtype=torch.float64)[:, None] / 10.0 ** torch.arange(dim // 2, dtype=torch.float64)


def rotation(length: int, dim: int) -> Tensor:
    """RoPE as one explicit matrix for each position: pairs (i, i + d/2) are rotated by n·θ_i."""
    matrices = torch.zeros(length, dim, dim, dtype=torch.float64)
    for n, row in enumerate(angles(length, dim).tolist()):
        for i, angle in enumerate(row):
            j = i + dim // 2
            matrices[n, i, i] = matrices[n, j, j] = math.cos(angle)
            matrices[n, i, j], matrices[n, j, i] = -math.sin(angle), math.sin(angle)
    return matrices


class Attention(nn.Module):
    """Self-attention in the spellings that models use."""

    def __init__(
        self,
        kind: str = "eager",
        *,
        width: int = 8,
        heads: int = 4,
        groups: int = 4,
        causal: bool = False,
        window: int | None = None,
        softcap: float | None = None,
        qk_norm: bool = False,
        rope: bool = False,
    ):
        super().__init__()
        self.kind, self.heads, self.groups, self.dim = kind, heads, groups, width // heads
        self.causal, self.window, self.softcap, self.rope = causal, window, softcap, rope
        self.q = nn.Linear(width, heads * self.dim)
        self.k = nn.Linear(width, groups * self.dim)
        self.v = nn.Linear(width, groups * self.dim)
        self.o = nn.Linear(heads * self.dim, width)
        self.q_norm = nn.Parameter(torch.ones(self.dim)) if qk_norm else None
        self.k_norm = nn.Parameter(torch.ones(self.dim)) if qk_norm else None

    def split(self, x: Tensor, layer: nn.Linear, heads: int) -> Tensor:
        return layer(x).view(*x.shape[:2], heads, self.dim).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q = self.split(x, self.q, self.heads)
        k, v = self.split(x, self.k, self.groups), self.split(x, self.v, self.groups)
        if self.q_norm is not None:
            q, k = F.rms_norm(q, (self.dim,), self.q_norm, 1e-6), F.rms_norm(k, (self.dim,), self.k_norm, 1e-6)
        if self.rope:
            q, k = _rotated(q), _rotated(k)
        out = self.attend(q, k, v, allowed(x.shape[1], self.causal, self.window))
        return self.o(out.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if self.kind == "fused_gqa":
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        if self.kind == "fused_causal":  # the flag instead of a mask
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.groups != self.heads:
            k, v = _repeated(k, self.heads // self.groups), _repeated(v, self.heads // self.groups)
        if self.kind == "fused":
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        if self.kind == "einsum":
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(self.dim)
        else:
            scores = torch.matmul(q, k.transpose(2, 3)) * self.dim**-0.5
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        if mask is not None:
            scores = scores + torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, torch.finfo(q.dtype).min)
        p = F.softmax(scores, dim=-1, dtype=torch.float64).to(q.dtype)
        p = F.dropout(p, 0.1, training=self.training)
        return torch.einsum("bhqk,bhkd->bhqd", p, v) if self.kind == "einsum" else torch.matmul(p, v)

    def reference(self, x: Tensor, rules: Rules) -> Tensor:
        q, k, v = (
            torch.stack((x @ layer.weight.T + layer.bias).split(self.dim, -1), 1) for layer in (self.q, self.k, self.v)
        )
        if self.q_norm is not None:
            q, k = rules.rms_norm(q, self.q_norm), rules.rms_norm(k, self.k_norm)
        if self.rope:
            turn = rotation(x.shape[1], self.dim)
            q, k = (torch.einsum("nij,bhnj->bhni", turn, t) for t in (q, k))
        out = rules.attention(q, k, v, allowed(x.shape[1], self.causal, self.window), self.softcap)
        return torch.cat(out.unbind(1), -1) @ self.o.weight.T + self.o.bias


def _rotated(x: Tensor) -> Tensor:
    """RoPE as Llama spells it."""
    turn = torch.cat([angles(x.shape[-2], x.shape[-1])] * 2, -1)
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * turn.cos() + torch.cat((-second, first), dim=-1) * turn.sin()


def _repeated(x: Tensor, times: int) -> Tensor:
    """repeat_kv of transformers."""
    batch, heads, length, dim = x.shape
    return x[:, :, None, :, :].expand(batch, heads, times, length, dim).reshape(batch, heads * times, length, dim)


class Gated(nn.Module):
    """down(silu(gate(x)) · up(x))."""

    def __init__(self, width: int = 8, inner: int = 12):
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))

    def reference(self, x: Tensor, rules: Rules) -> Tensor:
        return rules.gate(rules.silu(x @ self.gate.weight.T), x @ self.up.weight.T) @ self.down.weight.T


class Experts(nn.Module):
    """Two of four gated experts for each token, with softmax weights that are renormalised [Mixtral]."""

    def __init__(self, width: int = 8, experts: int = 4):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Gated(width, 6) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = torch.topk(F.softmax(self.router(flat), dim=-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for n, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == n)
            out.index_add_(0, token, expert(flat[token]) * weights[token, slot, None])
        return out.view_as(x)

    def reference(self, x: Tensor, rules: Rules) -> Tensor:
        """Token by token."""
        rows = []
        for row in x.reshape(-1, x.shape[-1]):
            p = rules.softmax(row @ self.router.weight.T)
            best = sorted(range(len(p)), key=lambda n: -p[n].item())[:2]
            total = rules.deviation(p[best[0]] + p[best[1]])
            rows.append(sum(rules.product(self.experts[n].reference(row, rules), p[n] / total) for n in best))
        return torch.stack(rows).view_as(x)


class Block(nn.Module):
    """Attention and MLP with residuals: `pre` (LayerNorm, GELU), `post` (BERT), `llama` (RMSNorm, gated MLP)."""

    def __init__(self, style: str, kind: str = "eager", width: int = 8):
        super().__init__()
        self.style = style
        llama = style == "llama"
        self.attention = Attention(kind, width=width, groups=2 if llama else 4, causal=llama, rope=llama)
        self.mlp = Gated(width) if llama else nn.Sequential(nn.Linear(width, 12), nn.GELU(), nn.Linear(12, width))
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(width, eps=1e-6), norm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        if self.style == "post":
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    def reference(self, x: Tensor, rules: Rules) -> Tensor:
        def norm(layer: nn.Module, x: Tensor) -> Tensor:
            if self.style == "llama":
                return rules.rms_norm(x, layer.weight, 1e-6)
            return rules.layer_norm(x, layer.weight, layer.bias, 1e-6)

        def mlp(x: Tensor) -> Tensor:
            if self.style == "llama":
                return self.mlp.reference(x, rules)
            first, _, second = self.mlp
            return rules.gelu(x @ first.weight.T + first.bias) @ second.weight.T + second.bias

        if self.style == "post":
            x = norm(self.norm1, x + self.attention.reference(x, rules))
            return norm(self.norm2, x + mlp(x))
        x = x + self.attention.reference(norm(self.norm1, x), rules)
        return x + mlp(norm(self.norm2, x))
