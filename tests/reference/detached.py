"""Building blocks with hand-placed `.detach()` calls: Gradient×Input through them is the relevance [Ali et al. 2022].

`PRESETS` is the table of the propagation methods, typed in from the papers. `Rules(preset)` has one method for each
kind of function that is not linear; a model written with them and differentiated by plain autograd is the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["PRESETS", "Preset", "Rules", "gradient_times_input"]


@dataclass(frozen=True)
class Preset:
    softmax: str | float
    query_key: float
    value: float
    activation: str
    gate: str
    norm: str


PRESETS = {
    #                     softmax     q,k   v     activation  gate·up     norm
    "gi": Preset("gradient", 1.0, 1.0, "gradient", "gradient", "gradient"),
    "ah": Preset("detach", 0.0, 1.0, "gradient", "gradient", "gradient"),
    "ln": Preset("gradient", 1.0, 1.0, "gradient", "gradient", "detach"),
    "ah_ln": Preset("detach", 0.0, 1.0, "gradient", "gradient", "detach"),
    "exact": Preset("detach", 0.0, 1.0, "slope", "half", "detach"),
    "cp_lrp": Preset("detach", 0.0, 1.0, "gradient", "detach", "detach"),
    "attn_lrp": Preset("gradient", 0.25, 0.5, "slope", "half", "detach"),
    "libragrad": Preset("detach", 0.0, 1.0, "gate", "half", "detach"),
    "gim": Preset(2.0, 0.25, 0.5, "gradient", "half", "detach"),
}


def gradient_times_input(f: Callable[[Tensor], Tensor], x: Tensor, weight: Tensor | float = 1.0) -> Tensor:
    """x · ∂ Σ weight·f(x) / ∂x by plain autograd."""
    x = x.detach().clone().requires_grad_()
    (grad,) = torch.autograd.grad((f(x) * weight).sum(), x)
    return (x * grad).detach()


def receives(x: Tensor, factor: float) -> Tensor:
    """x, of whose gradient only `factor` gets through."""
    return x * factor + (x * (1 - factor)).detach()


class Rules:
    """The functions of a transformer that are not linear, with what a preset holds constant detached."""

    def __init__(self, preset: str):
        self.preset = PRESETS[preset]

    # -- norms -----------------------------------------------------------------------------------------------

    def deviation(self, d: Tensor) -> Tensor:
        return d if self.preset.norm == "gradient" else d.detach()

    def layer_norm(self, x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / self.deviation((centred.pow(2).mean(-1, keepdim=True) + eps).sqrt()) * weight + bias

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        return x / self.deviation((x.pow(2).mean(-1, keepdim=True) + eps).sqrt()) * weight

    # -- elementwise -----------------------------------------------------------------------------------------

    def _elementwise(self, x: Tensor, f: Callable[[Tensor], Tensor], *, gated: bool) -> Tensor:
        as_slope = self.preset.activation == "slope" or (self.preset.activation == "gate" and gated)
        return x * (f(x) / x).detach() if as_slope else f(x)

    def gelu(self, x: Tensor) -> Tensor:
        return self._elementwise(x, lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))), gated=True)

    def silu(self, x: Tensor) -> Tensor:
        return self._elementwise(x, lambda x: x / (1 + torch.exp(-x)), gated=True)

    def tanh(self, x: Tensor) -> Tensor:
        return self._elementwise(x, torch.tanh, gated=False)

    def relu_squared(self, x: Tensor) -> Tensor:
        return self._elementwise(x, lambda x: x.clamp(min=0) ** 2, gated=True)

    # -- products --------------------------------------------------------------------------------------------

    def gate(self, gate: Tensor, up: Tensor) -> Tensor:
        """act(g) · u."""
        if self.preset.gate == "detach":
            return gate.detach() * up
        return self.product(gate, up)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Of a constant and something it is linear: halves are for two factors that both carry relevance."""
        if self.preset.gate == "half" and a.requires_grad and b.requires_grad:
            return 0.5 * (a * b.detach() + a.detach() * b)
        return a * b

    # -- attention -------------------------------------------------------------------------------------------

    def softmax(self, scores: Tensor) -> Tensor:
        p = torch.softmax(scores, -1)
        if self.preset.softmax == "detach":
            return p.detach()
        if self.preset.softmax == "gradient":
            return p
        t = float(self.preset.softmax)
        soft = t * torch.softmax(scores / t, -1)  # its Jacobian is that of softmax at s/T: the 1/T is gone
        return p.detach() + soft - soft.detach()

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None, softcap: float | None = None
    ) -> Tensor:
        """Heads one by one; head h of the queries attends to head h // group of the keys and values."""
        heads, group = q.shape[1], q.shape[1] // k.shape[1]
        out = []
        for h in range(heads):
            qh = receives(q[:, h], self.preset.query_key)
            kh = receives(k[:, h // group], self.preset.query_key)
            vh = receives(v[:, h // group], self.preset.value)
            s = qh @ kh.transpose(-2, -1) / math.sqrt(q.shape[-1])
            if softcap is not None:
                s = softcap * self.tanh(s / softcap)
            if allowed is not None:
                s = torch.where(allowed if allowed.dim() == 2 else allowed[:, h], s, -torch.inf)
            out.append(self.softmax(s) @ vh)
        return torch.stack(out, 1)
