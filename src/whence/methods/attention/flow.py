"""Attention flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from whence import cancel
from whence.extras import need
from whence.methods.attention.attention_method import (
    AbstractAttentionMethod,
    Fusion,
    LayerMap,
    Residual,
    fuse,
    residual,
)
from whence.methods.method import methods

__all__ = ["AttentionFlow", "max_flow_to_inputs"]

LARGEST = 2**30
"""Capacities are counted in whole numbers of which the largest row adds up to this: the algorithms that are exact work
with 32 bits."""


def _scipy() -> tuple[Any, Any]:
    return need("scipy.sparse.csgraph", "flow", "attention_flow"), need("scipy.sparse", "flow", "flow").csr_matrix


def max_flow_to_inputs(capacities: Sequence[np.ndarray], row: int) -> np.ndarray:
    """Maximum flow from token `row` above the last layer to each token below the first.

    `capacities[l][i, j]` is the capacity from token i above layer l to token j below it.

    The graph is layered, and only edges that leave the source matter in its own layer, so the graph has one source,
    one group of nodes per layer and the same edges for every sink: it is built once. Dinic's algorithm runs on whole
    numbers; the cut it ends with is then summed in float64, which gives the value of the exact problem.
    """
    csgraph, csr_matrix = _scipy()
    graph, exact = _graph(capacities, row, csr_matrix)
    length = capacities[0].shape[0]
    flows = np.empty(length)
    for sink in range(length):
        cancel.check()
        done = csgraph.maximum_flow(graph, 0, 1 + sink, method="dinic")
        flows[sink] = _cut(graph, exact, done.flow, csgraph)
    return flows


def _graph(capacities: Sequence[np.ndarray], row: int, csr_matrix: Any) -> tuple[Any, np.ndarray]:
    """Node 0 is the source; 1 + l·T + i is token i below layer l. Edges as whole numbers, and as they are."""
    layers, length = len(capacities), capacities[0].shape[0]
    tokens = np.arange(length)
    above, below = np.repeat(tokens, length), np.tile(tokens, length)
    starts = [np.zeros(length, np.int32)]
    ends = [1 + (layers - 1) * length + tokens]
    values = [capacities[-1][row]]
    for layer in range(layers - 1, 0, -1):
        starts.append(1 + layer * length + above)
        ends.append(1 + (layer - 1) * length + below)
        values.append(capacities[layer - 1].reshape(-1))
    size = 1 + layers * length
    numbers = np.arange(1, sum(map(len, values)) + 1)  # edge numbers survive the sorting into rows
    where = (np.concatenate(starts), np.concatenate(ends))
    order = csr_matrix((numbers, where), shape=(size, size))
    exact = np.concatenate(values).astype(np.float64)[order.data - 1]
    unit = LARGEST / max(1.0, *(c.sum(-1).max() for c in capacities))
    graph = csr_matrix((np.floor(exact * unit).astype(np.int32), order.indices, order.indptr), shape=(size, size))
    return graph, exact


def _cut(graph: Any, exact: np.ndarray, flow: Any, csgraph: Any) -> float:
    """Capacity in float64 of the cut that the whole-number flow saturates."""
    left = graph - flow
    left.data = np.maximum(left.data, 0)
    left.eliminate_zeros()
    reached = np.zeros(graph.shape[0], bool)
    reached[csgraph.breadth_first_order(left, 0, return_predecessors=False)] = True
    starts = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    crossing = reached[starts] & ~reached[graph.indices]
    return float(exact[crossing].sum())


@methods.register("attention_flow")
@dataclass(frozen=True, kw_only=True)
class AttentionFlow(AbstractAttentionMethod):
    """How much could flow from each input to the output, attention being capacities: r_j = maxflow(row → j) / Σ.

    Capacities are rownorm(mean_h A + I), as in rollout.   [Abnar & Zuidema 2020, sec. 3]
    Needs scipy: pip install 'whence-xai[flow]'.
    """

    class_specific: ClassVar[bool] = False
    multiplies: ClassVar[bool] = True
    cost: ClassVar[str] = "1 forward, 1 maximum flow per token (per row and token for `mean` and `column_sum`)"

    fusion: Fusion = "mean"
    """How heads become one map: `mean`, `max`, `min`."""
    residual: Residual = "add_identity_then_normalise"
    """The skip connection: `none`, `add_identity`, `add_identity_then_normalise`."""
    normalise: bool = True
    """Divide by the sum over inputs."""

    def token_scores(self, layers: list[LayerMap], rows: list[int], how: str) -> Tensor:
        maps = [residual(fuse(m.attention.cpu().double(), self.fusion), self.residual).numpy() for m in layers]
        flows = [max_flow_to_inputs(maps, r) for r in rows]
        if self.normalise:
            flows = [f / max(f.sum(), 1e-12) for f in flows]
        total = np.sum(flows, 0)
        return torch.from_numpy(total if how == "column_sum" else total / len(flows)).float()
