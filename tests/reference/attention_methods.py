"""The nine attention methods from their formulas, slowly, in float64.

Everything is a plain function of explicit arrays, one array per layer, first layer first:
A (head, query, key), its gradient G of the same shape, its relevance R of the same shape.
`rows` are the predicting tokens; `how` says how several are taken together: "mean" or "column_sum".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Maps = Sequence[np.ndarray]

__all__ = [
    "attcat",
    "attention_flow",
    "attention_grad_cam",
    "attention_last",
    "gae",
    "gae_encoder_decoder",
    "grad_sam",
    "max_flow",
    "partial_lrp",
    "rollout",
    "transformer_attribution",
]


# -- what they share -------------------------------------------------------------------------------------------------


def fuse(heads: np.ndarray, fusion: str) -> np.ndarray:
    _, queries, keys = heads.shape
    out = np.zeros((queries, keys))
    for i in range(queries):
        for j in range(keys):
            column = [float(head[i, j]) for head in heads]
            out[i, j] = {"mean": sum(column) / len(column), "max": max(column), "min": min(column)}[fusion]
    return out


def rows_sum_to_one(matrix: np.ndarray) -> np.ndarray:
    return np.array([row / row.sum() for row in matrix])


def skip_connection(matrix: np.ndarray, residual: str) -> np.ndarray:
    if residual == "none":
        return matrix
    added = matrix + np.eye(len(matrix))
    return added if residual == "add_identity" else rows_sum_to_one(added)


def multiply_through(matrices: Maps) -> np.ndarray:
    """M_L ⋯ M_2 M_1."""
    total = np.eye(len(matrices[0]))
    for matrix in matrices:
        total = matrix @ total
    return total


def pick(matrix: np.ndarray, rows: Sequence[int], how: str) -> np.ndarray:
    total = np.zeros(matrix.shape[1])
    for row in rows:
        total += matrix[row]
    return total if how == "column_sum" else total / len(rows)


def positive(array: np.ndarray) -> np.ndarray:
    return np.where(array > 0, array, 0.0)


def own_score_smallest(scores: np.ndarray, rows: Sequence[int]) -> np.ndarray:
    if len(rows) == 1:
        scores = scores.copy()
        scores[rows[0]] = scores.min()
    return scores


# -- maps alone ------------------------------------------------------------------------------------------------------


def attention_last(
    A: Maps, rows: Sequence[int], how: str = "mean", *, fusion: str = "mean", variant: str = "paper"
) -> np.ndarray:
    """r = mean_h A^L[row]; the public code of Ali 2022 sums columns over all rows."""
    fused = fuse(A[-1], fusion)
    return fused.sum(0) if variant == "code" else pick(fused, rows, how)


def rollout(
    A: Maps,
    rows: Sequence[int],
    how: str = "mean",
    *,
    fusion: str = "mean",
    residual: str = "add_identity_then_normalise",
    start_layer: int = 0,
    zero_self: bool = False,
) -> np.ndarray:
    """r = (Â_L ⋯ Â_1)[row], Â = rownorm(mean_h A + I)."""
    kept = [skip_connection(fuse(a, fusion), residual) for a in A[start_layer:]]
    scores = pick(multiply_through(kept), rows, how)
    return own_score_smallest(scores, rows) if zero_self else scores


def max_flow(capacities: Maps, row: int, sink: int) -> float:
    """Maximum flow from token `row` above all layers to token `sink` below them, by networkx.

    capacities[l][i, j] leads from token i above layer l to token j below it.
    """
    import networkx
    from networkx.algorithms.flow import edmonds_karp  # the default, preflow-push, breaks down on rounded floats

    graph = networkx.DiGraph()
    top = len(capacities)
    graph.add_nodes_from([(top, row), (0, sink)])
    for layer, matrix in enumerate(capacities):
        for i, j in np.ndindex(*matrix.shape):
            graph.add_edge((layer + 1, i), (layer, j), capacity=float(matrix[i, j]))
    return networkx.maximum_flow(graph, (top, row), (0, sink), flow_func=edmonds_karp)[0]


def attention_flow(
    A: Maps,
    rows: Sequence[int],
    how: str = "mean",
    *,
    fusion: str = "mean",
    residual: str = "add_identity_then_normalise",
    normalise: bool = True,
) -> np.ndarray:
    """r_j = maxflow(row → j) / Σ_j'."""
    capacities = [skip_connection(fuse(a, fusion), residual) for a in A]
    length = len(capacities[0])
    flows = np.zeros((length, length))
    for row in rows:
        flows[row] = [max_flow(capacities, row, sink) for sink in range(length)]
        if normalise:
            flows[row] /= flows[row].sum()
    return pick(flows, rows, how)


# -- maps and gradients ----------------------------------------------------------------------------------------------


def gradient_weighted(a: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Ā = mean_h (∇A ⊙ A)⁺."""
    return fuse(positive(a * g), "mean")


def gae(A: Maps, G: Maps, rows: Sequence[int], how: str = "mean", *, variant: str = "paper") -> np.ndarray:
    """R ← R + Ā R from R = I. The public code of Ali 2022: a row-normalised rollout of the same maps."""
    if variant == "code":
        maps = [
            skip_connection(gradient_weighted(a, g), "add_identity_then_normalise") for a, g in zip(A, G, strict=True)
        ]
        return pick(multiply_through(maps), rows, how)
    R = np.eye(A[0].shape[-1])
    for a, g in zip(A, G, strict=True):
        R = R + gradient_weighted(a, g) @ R
    return pick(R, rows, how)


def gae_encoder_decoder(
    encoder: Sequence[tuple[np.ndarray, np.ndarray]],
    decoder: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]],
    rows: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of source and decoder tokens [Chefer et al. ICCV 2021, eq. 5–11].

    `encoder`: (A, ∇A) per layer. `decoder`: (A, ∇A) of self-attention, then (A, ∇A) of cross-attention per layer.
    """
    R_qq = np.eye(encoder[0][0].shape[-1])  # source to source
    for a, g in encoder:
        R_qq = R_qq + gradient_weighted(a, g) @ R_qq
    R_ss = np.eye(decoder[0][0].shape[-1])  # decoder to decoder
    R_sq = np.zeros((len(R_ss), len(R_qq)))  # decoder to source
    for a, g, cross, cross_g in decoder:
        own = gradient_weighted(a, g)
        R_ss, R_sq = R_ss + own @ R_ss, R_sq + own @ R_sq
        R_sq = R_sq + without_self(R_ss).T @ gradient_weighted(cross, cross_g) @ without_self(R_qq)
    return pick(R_sq, rows, "mean"), pick(R_ss, rows, "mean")


def without_self(R: np.ndarray) -> np.ndarray:
    """R̄ = rownorm(R - I) + I [eq. 8, 9]; a row of zeros stays one."""
    rest = R - np.eye(len(R))
    return np.array([row / row.sum() if row.sum() > 0 else row for row in rest]) + np.eye(len(R))


def grad_sam(A: Maps, G: Maps, *, axis: str = "query") -> np.ndarray:
    """r_i = 1/(LMN) Σ_l Σ_m Σ_j [A ⊙ ReLU(∂s/∂A)]_ij."""
    layers, heads, length = len(A), A[0].shape[0], A[0].shape[-1]
    scores = np.zeros(length)
    for a, g in zip(A, G, strict=True):
        for m, i, j in np.ndindex(*a.shape):
            scores[i if axis == "query" else j] += a[m, i, j] * max(g[m, i, j], 0.0)
    return scores / (layers * heads * length)


def attention_grad_cam(
    A: Maps, G: Maps, rows: Sequence[int], how: str = "mean", *, variant: str = "paper"
) -> np.ndarray:
    """r = ReLU(mean_h w_h A_h[row]), w_h the mean of ∇A_h over the map.

    In the public code it is the mean over the class token's row without the class token's column.
    """
    a, g = A[-1], G[-1]
    weighted = np.zeros_like(a)
    length = a.shape[-1]
    others = [k for k in range(length) if k not in rows] or list(range(length))
    for head in range(len(a)):
        cells = [g[head][q][k] for q in rows for k in others]
        weighted[head] = (np.mean(cells) if variant == "code" else g[head].mean()) * a[head]
    return positive(pick(fuse(weighted, "mean"), rows, how))


def attcat(A: Maps, states: Maps, states_gradient: Maps) -> np.ndarray:
    """r_i = Σ_l (mean_{h,query} A^l)_i · Σ_d h^l_id ∂y/∂h^l_id."""
    length = A[0].shape[-1]
    scores = np.zeros(length)
    for a, h, g in zip(A, states, states_gradient, strict=True):
        for i in range(length):
            scores[i] += a[:, :, i].mean() * sum(h[i] * g[i])
    return scores


# -- maps and relevance ----------------------------------------------------------------------------------------------


def transformer_attribution(
    A: Maps,
    G: Maps,
    R: Maps,
    rows: Sequence[int],
    how: str = "mean",
    *,
    variant: str = "paper",
    start_layer: int | None = None,
    ablation: str = "none",
) -> np.ndarray:
    """Ā = I + mean_h (∇A ⊙ R_A)⁺, C = Ā_B ⋯ Ā_1, r = C[row].

    `code` is the authors' BERT code: rows sum to one, only the last layer unless told otherwise, the row's own score
    set to the smallest. Ablations: A in place of ∇A; the last block alone; the first block alone.
    """
    weights = A if ablation == "attention" else G
    maps = [fuse(positive(w * r), "mean") for w, r in zip(weights, R, strict=True)]
    if ablation in ("last_block", "first_block"):
        return pick(maps[-1] if ablation == "last_block" else maps[0], rows, how)
    if variant == "paper":
        kept = [skip_connection(m, "add_identity") for m in maps[start_layer or 0 :]]
        return pick(multiply_through(kept), rows, how)
    first = len(maps) - 1 if start_layer is None else start_layer
    kept = [skip_connection(m, "add_identity_then_normalise") for m in maps[first:]]
    return own_score_smallest(pick(multiply_through(kept), rows, how), rows)


def partial_lrp(R: Maps, rows: Sequence[int], how: str = "mean") -> np.ndarray:
    """r = (mean_h R_A⁺)[row] of the last layer."""
    return pick(fuse(positive(R[-1]), "mean"), rows, how)
