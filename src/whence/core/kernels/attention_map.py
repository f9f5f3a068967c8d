"""The map of a fused attention call, P = softmax(q kᵀ · scale + mask), which nobody writes down as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.core.kernels import triton_kernels

__all__ = ["AttentionOperator", "Kernel", "readable"]

FLASH, CUDNN = 1, 3
"""torch's numbers of its fused kernels."""
Kernel = Literal["cpu", "flash", "cudnn"]
CHUNK = {"cpu": 2**22, "cuda": 2**27}
"""Elements of the map that exist at one time. On a CPU they should stay in its cache."""


def readable(mask: Tensor | None) -> Tensor | None:
    """A mask that is the same for all keys may have no stride; no fused kernel of a GPU would take it."""
    return mask.contiguous() if mask is not None and mask.is_cuda and mask.stride(-1) != 1 else mask


@dataclass(frozen=True)
class AttentionOperator:
    """P of one call: queries (batch, head, query, channel); keys may have fewer heads, each for a group of queries."""

    q: Tensor
    k: Tensor
    mask: Tensor | None = None
    """True where a query may look, or numbers that are added to the scores."""
    causal: bool = False
    scale: float | None = None
    lse: Tensor | None = None
    """(batch, head, query): log Σ exp of the scores, where the fused kernel said so."""

    @staticmethod
    def takes(q: Tensor, k: Tensor, v: Tensor) -> bool:
        """Whether a call has the shape that is meant here."""
        return (
            q.dim() == k.dim() == v.dim() == 4
            and q.shape[0] == k.shape[0] == v.shape[0]
            and k.shape[1] == v.shape[1]
            and q.shape[1] % k.shape[1] == 0
        )

    @property
    def factor(self) -> float:
        return float(self.q.shape[-1] ** -0.5) if self.scale is None else self.scale

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.q.shape[1] // self.k.shape[1]

    def kernel(self, v: Tensor) -> Kernel | None:
        """The fused kernel that torch would choose, of those that say their log-sum-exp."""
        rest: dict[str, Any] = {"is_causal": self.causal, "scale": self.scale, "enable_gqa": self.group > 1}
        even = self.q.shape[-1] == v.shape[-1] and self.q.shape[-1] % 8 == 0
        if self.q.is_cuda and self.mask is None and even:
            chosen = torch._fused_sdp_choice(self.q, self.k, v, None, 0.0, **rest)
            return {FLASH: "flash", CUDNN: "cudnn"}.get(chosen)  # type: ignore[return-value]
        if self.q.device.type == "cpu" and torch._fused_sdp_choice(self.q, self.k, v, self.mask, 0.0, **rest) == FLASH:
            return "cpu"
        return None

    def run(self, v: Tensor, kernel: Kernel) -> tuple[Tensor, Tensor, tuple[Any, ...]]:
        """P v, the log-sum-exp of the rows, and what else the kernel wants to see in its backward pass."""
        if kernel == "cpu":
            out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                self.q, self.k, v, 0.0, self.causal, attn_mask=self._numbers(), scale=self.scale
            )
            return out, lse, ()
        if kernel == "flash":
            out, lse, *rest, _ = torch.ops.aten._scaled_dot_product_flash_attention(
                self.q, self.k, v, 0.0, self.causal, False, scale=self.scale
            )
        else:
            out, lse, *rest, _ = torch.ops.aten._scaled_dot_product_cudnn_attention(
                self.q, self.k, v, None, True, 0.0, self.causal, False, scale=self.scale
            )
        return out, lse, tuple(rest)

    def backward(
        self, grad: Tensor, v: Tensor, out: Tensor, kernel: Kernel, rest: tuple[Any, ...]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of queries, keys and values, by the kernel that made `out`."""
        aten, held = torch.ops.aten, (grad, self.q, self.k, v, out, self.lse)
        if kernel == "cpu":
            found = aten._scaled_dot_product_flash_attention_for_cpu_backward(
                *held, 0.0, self.causal, attn_mask=self._numbers(), scale=self.scale
            )
        elif kernel == "flash":
            *sizes, seed, offset = rest
            found = aten._scaled_dot_product_flash_attention_backward(
                *held, *sizes, 0.0, self.causal, seed, offset, scale=self.scale
            )
        else:
            *sizes, seed, offset = rest
            found = aten._scaled_dot_product_cudnn_attention_backward(
                *held, seed, offset, None, *sizes, 0.0, self.causal, scale=self.scale
            )
        return found[0], found[1], found[2]

    def attend(self, v: Tensor) -> tuple[Tensor, Tensor | None]:
        """P v by the kernel that torch would have chosen, and the log-sum-exp of its rows if it gives one."""
        kernel = self.kernel(v)
        if kernel is not None:
            out, lse, _ = self.run(v, kernel)
            return out, lse
        rest: dict[str, Any] = {"is_causal": self.causal, "scale": self.scale, "enable_gqa": self.group > 1}
        return F.scaled_dot_product_attention(self.q, self.k, v, attn_mask=readable(self.mask), **rest), None

    def transposed(self, x: Tensor) -> Tensor:
        """Pᵀ x for x (batch, head, query, channel): (batch, key head, key, channel), groups summed."""
        kernels = triton_kernels("triton_map") if self.q.is_cuda else None
        if kernels is not None and kernels.takes(self, x):
            made: Tensor = kernels.transposed(self, x)
            return made
        if self.lse is not None and self._is_exchangeable(x):
            return self._exchanged(x)
        return self.in_chunks(x)

    def _numbers(self) -> Tensor | None:
        """The mask as numbers to add."""
        if self.mask is None or self.mask.dtype != torch.bool:
            return self.mask
        return torch.zeros_like(self.mask, dtype=self.q.dtype).masked_fill_(~self.mask, -torch.inf)

    def _is_exchangeable(self, x: Tensor) -> bool:
        full = self.q.dtype in (torch.float32, torch.float64)  # the log-sum-exp becomes a channel, and needs its digits
        square = self.q.shape[-2] == self.k.shape[-2]
        return full and self.q.device.type == "cpu" and x.shape[-1] == self.q.shape[-1] and (square or not self.causal)

    def _exchanged(self, x: Tensor) -> Tensor:
        """Pᵀ x as fused attention with keys and queries exchanged.

        p_ij = exp(s_ij - l_i), so Σ_i p_ij x_i = Z_j · softmax_i(s_ij - l_i) x_i with Z_j = Σ_i p_ij, whose logarithm
        is the log-sum-exp of that attention; -l_i is a channel more of q_i. A causal map turns round: both sequences
        are read from their ends.
        """
        batch, heads, queries, width = self.q.shape
        keys, groups = self.k.shape[-2], self.group
        lse = self.lse
        assert lse is not None

        def turned(t: Tensor) -> Tensor:
            return t.flip(-2) if self.causal else t

        ask = x.new_empty(batch, heads, keys, width + 1)
        ask.unflatten(1, (-1, groups))[..., :width] = turned(self.k * self.factor)[:, :, None]
        ask[..., width] = 1
        held = x.new_empty(batch, heads, queries, width + 1)
        held[..., :width] = turned(self.q)
        held[..., width:] = turned(-lse[..., None])
        given = x.new_zeros(batch, heads, queries, width + 1)
        given[..., :width] = turned(x)
        mask = self._numbers()
        mask = None if mask is None else mask.expand(batch, heads, queries, keys).mT
        out, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            ask, held, given, 0.0, self.causal, attn_mask=mask, scale=1.0
        )
        made = turned(out[..., :width] * total.exp()[..., None])
        return made if groups == 1 else made.unflatten(1, (-1, groups)).sum(2)

    def in_chunks(self, x: Tensor) -> Tensor:
        """Pᵀ x by plain products. Some queries at a time, all their keys at once: a softmax needs whole rows."""
        batch, heads, _, _ = self.q.shape
        groups = self.group
        out = x.new_zeros(batch, heads // groups, self.k.shape[-2], x.shape[-1])
        for at, p in self.in_rows(CHUNK["cuda" if self.q.is_cuda else "cpu"]):
            rows = p.to(x.dtype).reshape(batch, heads // groups, -1, p.shape[-1])
            part = x[:, :, at].reshape(batch, heads // groups, rows.shape[2], -1)
            out[:, :, : p.shape[-1]] += rows.mT @ part
        return out

    def in_rows(self, most: int) -> Iterator[tuple[slice, Tensor]]:
        """P of some queries at a time, `most` elements together, over the keys up to the last that they may see."""
        batch, heads, queries, _ = self.q.shape
        keys = self.k.shape[-2]
        step = max(1, min(queries, most // max(1, batch * heads * keys)))
        scaled = self.q * self.factor
        for start in range(0, queries, step):
            stop = min(start + step, queries)
            yield slice(start, stop), self._rows(scaled, start, stop, min(keys, stop) if self.causal else keys)

    def _rows(self, scaled: Tensor, start: int, stop: int, seen: int) -> Tensor:
        """P of the queries `start` to `stop` over the first `seen` keys: (batch, head, query, key)."""
        batch, heads, _, width = self.q.shape
        grouped = scaled[:, :, start:stop].reshape(batch, self.k.shape[1], -1, width)
        scores = (grouped @ self.k[:, :, :seen].mT).view(batch, heads, stop - start, seen)
        if self.causal:
            places = torch.arange(seen, device=scores.device)
            scores = scores.masked_fill_(places > torch.arange(start, stop, device=scores.device)[:, None], -torch.inf)
        if self.mask is not None:
            mask = self.mask[..., start:stop, :] if self.mask.shape[-2] > 1 else self.mask
            mask = mask[..., :seen]
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        wide = torch.float64 if scores.dtype == torch.float64 else torch.float32
        p = torch.softmax(scores, -1, dtype=wide)
        # a row that may look nowhere: zero, as in the fused kernels
        return p.nan_to_num_(0.0) if self.mask is not None else p

    def saved(self) -> tuple[list[Tensor], dict[str, Any]]:
        """What must be kept to apply it later."""
        held = {"q": self.q, "k": self.k, "mask": self.mask, "lse": self.lse}
        return [t for t in held.values() if t is not None], {
            "names": [n for n, t in held.items() if t is not None], "causal": self.causal, "scale": self.scale,
        }  # fmt: skip
