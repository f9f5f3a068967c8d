"""One attention of a batch as its methods ask for it: sums over rows and columns, never the whole map.

P is (batch, head, query, key), G = ∂score/∂P. A fused call never writes them down: P comes from queries and keys, and
G = ∂out vᵀ from the gradient of its result. Where the model wrote P down itself, it is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from whence.core.kernels import triton_kernels
from whence.core.kernels.attention_map import CHUNK, AttentionOperator

__all__ = ["AbstractMap", "FusedMap", "WrittenMap"]


class AbstractMap(ABC):
    """What can be asked of an attention. Sums are over all heads, in float32 or better."""

    examples: int
    heads: int
    queries: int
    keys: int
    has_gradient: bool
    device: torch.device

    @abstractmethod
    def columns_by_head(self, weights: Tensor) -> Tensor:
        """Σ_q w_q P_qk for weights (batch, query): (batch, head, key)."""

    def columns(self, weights: Tensor) -> Tensor:
        """The same, summed over heads: (batch, key)."""
        return self.columns_by_head(weights).sum(1)

    @abstractmethod
    def helpful_columns(self, weights: Tensor) -> Tensor:
        """Σ_h Σ_q w_q (P ⊙ G)⁺_qk: (batch, key)."""

    @abstractmethod
    def helpful_rows(self) -> Tensor:
        """Σ_h Σ_k (P ⊙ G)⁺_qk: (batch, query)."""

    @abstractmethod
    def gradient_sums(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Σ_qk w_q u_k G_qk of each head, for weights (batch, query) and (batch, key): (batch, head)."""

    @abstractmethod
    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """P of some queries at a time: (batch, head, query, key)."""

    @abstractmethod
    def read_rows(self) -> Tensor:
        """Which queries the score depends on, (batch, query)."""

    @cached_property
    def row_sums(self) -> Tensor:
        """Σ_k of the mean over heads, (batch, query): 1, but for queries that may look nowhere."""
        return torch.cat([p.sum(-1).mean(1) for _, p in self.chunks()], -1)


@dataclass
class WrittenMap(AbstractMap):
    """A map that the model wrote down."""

    probabilities: Tensor
    gradient: Tensor | None = None

    def __post_init__(self) -> None:
        self.examples, self.heads, self.queries, self.keys = self.probabilities.shape
        self.has_gradient, self.device = self.gradient is not None, self.probabilities.device

    @property
    def _p(self) -> Tensor:
        return _wide(self.probabilities)

    @property
    def _g(self) -> Tensor:
        assert self.gradient is not None
        return _wide(self.gradient)

    def columns_by_head(self, weights: Tensor) -> Tensor:
        return torch.einsum("bq,bhqk->bhk", weights.to(self._p), self._p)

    def helpful_columns(self, weights: Tensor) -> Tensor:
        return torch.einsum("bq,bhqk->bk", weights.to(self._p), (self._p * self._g).clamp_(min=0))

    def helpful_rows(self) -> Tensor:
        return (self._p * self._g).clamp_(min=0).sum((1, 3))

    def gradient_sums(self, queries: Tensor, keys: Tensor) -> Tensor:
        return torch.einsum("bq,bhqk,bk->bh", queries.to(self._g), self._g, keys.to(self._g))

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        yield slice(0, self.queries), self._p

    def read_rows(self) -> Tensor:
        return self._g.abs().sum((1, 3)) > 0


@dataclass
class FusedMap(AbstractMap):
    """The map of a fused call."""

    operator: AttentionOperator
    values: Tensor | None = None
    out_gradient: Tensor | None = None

    def __post_init__(self) -> None:
        self.examples, self.heads, self.queries, _ = self.operator.q.shape
        self.keys = self.operator.k.shape[-2]
        self.has_gradient, self.device = self.out_gradient is not None, self.operator.q.device

    @property
    def _kernels(self) -> object:
        kernels = triton_kernels("triton_map") if self.operator.q.is_cuda else None
        return kernels if kernels is not None and kernels.takes(self.operator, self.operator.q) else None

    def columns_by_head(self, weights: Tensor) -> Tensor:
        if (kernels := self._kernels) is not None:
            made: Tensor = kernels.columns(self.operator, weights)  # type: ignore[attr-defined]
            return made
        out = self._zeros(self.heads * self.keys).view(self.examples, self.heads, self.keys)
        for at, p in self.chunks():
            out[:, :, : p.shape[-1]] += torch.einsum("bq,bhqk->bhk", weights[:, at].to(p), p)
        return out

    def helpful_columns(self, weights: Tensor) -> Tensor:
        if (kernels := self._kernels) is not None:
            made: Tensor = kernels.columns(self.operator, weights, self.values, self.out_gradient)  # type: ignore[attr-defined]
            return made.sum(1)
        out = self._zeros(self.keys)
        for at, p in self.chunks():
            helpful = p.mul_(self._gradient(at, p.shape[-1]).clamp_(min=0))
            out[:, : p.shape[-1]] += torch.einsum("bq,bhqk->bk", weights[:, at].to(p), helpful)
        return out

    def helpful_rows(self) -> Tensor:
        if (kernels := self._kernels) is not None:
            made: Tensor = kernels.rows(self.operator, self.values, self.out_gradient)  # type: ignore[attr-defined]
            return made.sum(1)
        found = [
            p.mul_(self._gradient(at, p.shape[-1]).clamp_(min=0)).sum((1, 3)) for at, p in self.chunks()
        ]  # fmt: skip
        return torch.cat(found, -1)

    def gradient_sums(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Σ_qk w_q u_k ∂out_q · v_k = (Σ_q w_q ∂out_q) · (Σ_k u_k v_k)."""
        grad, values = self._both()
        by_query = torch.einsum("bq,bhqc->bhc", queries.to(grad), grad)
        by_key = torch.einsum("bk,bhkc->bhc", keys.to(values), values).repeat_interleave(self.operator.group, 1)
        return (by_query * by_key).sum(-1)

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        yield from self.operator.in_rows(CHUNK["cuda" if self.operator.q.is_cuda else "cpu"])

    @cached_property
    def row_sums(self) -> Tensor:
        """Rows of a softmax sum to one; what may look nowhere stands in the mask."""
        mask = self.operator.mask
        if mask is None:
            return self._zeros(self.queries) + 1
        seen = (mask if mask.dtype == torch.bool else mask > -torch.inf).any(-1)
        shape = (self.examples, self.heads, self.queries)
        return seen.expand(shape).to(self._zeros(1)).mean(1)

    def read_rows(self) -> Tensor:
        assert self.out_gradient is not None
        return (self.out_gradient != 0).any(-1).any(1)

    def _both(self) -> tuple[Tensor, Tensor]:
        assert self.out_gradient is not None
        assert self.values is not None
        return _wide(self.out_gradient), _wide(self.values)

    def _gradient(self, at: slice, keys: int) -> Tensor:
        """G of some queries over the first keys."""
        grad, values = self._both()
        batch, heads, _, width = grad.shape
        grouped = grad[:, :, at].reshape(batch, values.shape[1], -1, width)
        return (grouped @ values[:, :, :keys].mT).view(batch, heads, -1, keys)

    def _zeros(self, size: int) -> Tensor:
        kind = torch.promote_types(self.operator.q.dtype, torch.float32)
        return torch.zeros(self.examples, size, dtype=kind, device=self.operator.q.device)


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
