"""Attribution graphs: the relevance of every token in every layer, and by which head it came from which token.

Where the recipe takes attention's probabilities P for constants, what a head gives at a query is a sum over keys, and
so is its relevance: with values v and the gradient u of what the head gives, the edge from key t to query t' is

    E[t', t] = P[t', t] · ⟨v[t], u[t']⟩,    Σ_t E[t', t] = ⟨o[t'], u[t']⟩ = relevance of the head at t'.

Everything else in a block works on single tokens. So one forward and one backward pass give all edges, without a
backward pass for each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.core.crossing import Crossing, inside
from whence.core.numerics import wide_of
from whence.core.places import Place
from whence.core.recipe import Recipe
from whence.errors import InputError, ModelError
from whence.methods.propagate import Propagate
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.attending import in_the_open
from whence.models.example import Example, ExampleBatch
from whence.progress import track
from whence.results.attribution_graph import AttributionGraph, Edge
from whence.stamp import versions

__all__ = ["graphed"]

KINDS = ("input", "layers", "heads", "mlps")


class _Layer(NamedTuple):
    """The edges of one block."""

    edges: list[Edge]
    heads: list[float]
    sent: Tensor
    """(token,): what each token gives to others and itself through the heads."""
    taken: Tensor
    """(token,): what each token has through the heads."""
    total: float
    """Σ |weight| of all edges of heads."""


def graphed(
    model: AbstractAdapter,
    method: Propagate,
    example: Example,
    choice: object,
    *,
    share: float = 0.8,
    most: int = 500,
    progress: bool | None = False,
) -> AttributionGraph:
    """Of each block the strongest edges, until `share` of what all of them carry is there; `most` of them at most."""
    recipe = method.resolved()
    _check(recipe)
    aimed, target = model.aim(example, model.default_target(example) if choice is None else choice)
    batch = model.collate([aimed], [target])
    scores = TargetScores(model, batch, [target])
    with in_the_open(model.module):
        seen = inside(
            model.forward, batch, module=model.module, target=scores, recipe=recipe, kinds=KINDS, maps=True
        )  # fmt: skip
    rows = _rows(seen)
    layers = len(rows) - 1
    found = [_layer(n, seen.of("heads"), most) for n in track(range(layers), "edges", layers, show=progress)]
    relevance = torch.stack(rows)
    constants, edges, totals = [], [], []
    for n, own in enumerate(found):
        mlp = _added([_by_token(place) for place in seen.of("mlps") if place.layer == n], relevance[n])
        alone = relevance[n] - own.sent  # what a token hands on to itself, its MLP included
        constants.append(relevance[n + 1] - own.taken - alone)
        single = [Edge(n, t, t, "mlp", float(w)) for t, w in enumerate(mlp)]
        single += [Edge(n, t, t, "skip", float(w)) for t, w in enumerate(alone - mlp)]
        total = own.total + sum(abs(e.weight) for e in single)
        edges += _strongest([*own.edges, *single], total, share, most)
        totals.append(total)
    joined = _connected(edges, layers)
    carried = [sum(abs(e.weight) for e in joined if e.layer == n) for n in range(layers)]
    width = max((len(own.heads) for own in found), default=0)
    return AttributionGraph(
        relevance=relevance.cpu().numpy(),
        edges=tuple(sorted(joined, key=lambda e: -abs(e.weight))),
        tokens=_names(model, batch, seen, relevance.shape[1]),
        constants=torch.stack(constants).cpu().numpy(),
        layers=seen.layers,
        heads=np.array([own.heads + [0.0] * (width - len(own.heads)) for own in found]),
        kept=tuple(part / total if total else 1.0 for part, total in zip(carried, totals, strict=True)),
        target=scores.names[0],
        target_score=seen.target,
        probability=_probability(model, batch, seen, scores.names[0]),
        method=method.name,
        text=aimed.text,
        stamp={**model.facts(), **versions()},
    )


def _check(recipe: Recipe) -> None:
    if recipe.softmax != "detach":
        raise InputError(
            f"a graph needs a recipe whose attention is constant, and {recipe.name!r} differentiates its softmax: "
            "use method='exact', 'cp_lrp' or 'ah_ln'"
        )


def _rows(seen: Crossing) -> list[Tensor]:
    """The relevance of every token in every row of the stream."""
    rows = [_by_token(place) for place in [*seen.of("input"), *seen.of("layers")]]
    if len(rows) < 2:
        raise ModelError("no blocks were seen in this model, so there are no layers to draw a graph of")
    if len({len(row) for row in rows}) > 1 or len({name.rpartition(".")[0] for name in seen.layers}) > 1:
        raise ModelError(
            "this model has several stacks of blocks, or its number of tokens changes on the way: a graph has one "
            "residual stream. whence.explain(…, at='layers') shows its layers"
        )
    return rows


def _by_token(place: Place) -> Tensor:
    """(token,)."""
    relevance = place.relevance
    return relevance.sum(-1, dtype=wide_of(relevance.device)).reshape(-1)


def _added(parts: list[Tensor], like: Tensor) -> Tensor:
    """What all MLPs of a layer add, where each is of all tokens."""
    whole = [part for part in parts if part.shape == like.shape]
    return torch.stack(whole).sum(0) if whole else torch.zeros_like(like)


def _layer(number: int, heads: list[Place], most: int) -> _Layer:
    own = [place for place in heads if place.layer == number]
    if not own:
        raise ModelError(f"layer {number} has no attention that could be seen: a graph needs its edges")
    edges: list[Edge] = []
    sums: list[float] = []
    sent, taken, total = torch.zeros(()), torch.zeros(()), 0.0
    for place in own:
        for weights in _weights(place):
            sent, taken = sent + weights.sum(0), taken + weights.sum(1)
            total += float(weights.abs().sum())
            sums.append(float(weights.sum()))
            places = weights.flatten().abs().topk(min(most, weights.numel())).indices
            flat, keys = weights.flatten()[places].tolist(), weights.shape[1]
            for place_, weight in zip(places.tolist(), flat, strict=True):
                edges.append(Edge(number, place_ % keys, place_ // keys, f"head {len(sums) - 1}", weight))
    return _Layer(edges, sums, sent, taken, total)


def _weights(place: Place) -> Iterator[Tensor]:
    """E (query, key) of one head after the other, in double precision."""
    if place.mixing is None:
        raise ModelError(
            f"{place.name} attends within windows or in a way that could not be seen: a graph needs attention over "
            "all tokens. whence.explain(…, at='heads') works there"
        )
    probabilities, values = place.mixing()
    values = values.expand(len(probabilities), *values.shape[1:])  # heads may share one (Falcon)
    wide = wide_of(probabilities.device)
    gradient = None if place.gradient is None else place.gradient.reshape(-1, *place.gradient.shape[-2:])
    for head, weights in enumerate(probabilities):
        if gradient is None:
            yield torch.zeros_like(weights, dtype=wide)
        else:
            yield weights.to(wide) * (gradient[head].to(wide) @ values[head].to(wide).T)


def _strongest(edges: list[Edge], total: float, share: float, most: int) -> list[Edge]:
    """The strongest edges that carry `share` of the total together."""
    chosen, carried = [], 0.0
    for edge in sorted(edges, key=lambda e: -abs(e.weight))[:most]:
        if edge.weight == 0 or (total and carried >= share * total):
            break
        chosen.append(edge)
        carried += abs(edge.weight)
    return chosen


def _connected(edges: list[Edge], layers: int) -> list[Edge]:
    """Edges on a way from the first row to the last."""
    up: set[tuple[int, int]] = {(0, e.source) for e in edges if e.layer == 0}
    by_layer = [[e for e in edges if e.layer == n] for n in range(layers)]
    for own in by_layer:
        up |= {(e.layer + 1, e.target) for e in own if (e.layer, e.source) in up}
    down = {(layers, e.target) for e in by_layer[-1]} if by_layer else set()
    for own in reversed(by_layer):
        down |= {(e.layer, e.source) for e in own if (e.layer + 1, e.target) in down}
    return [e for e in edges if (e.layer, e.source) in up and (e.layer + 1, e.target) in down]


def _probability(model: AbstractAdapter, batch: ExampleBatch, seen: Crossing, target: str) -> float | None:
    (said,) = model.predictions(seen.outputs, batch)
    return dict(zip(said.labels, said.probabilities, strict=False)).get(target)


def _names(model: AbstractAdapter, batch: ExampleBatch, seen: Crossing, tokens: int) -> tuple[str, ...]:
    """What the tokens of the stream are called; a stream may have some of its own in front ([CLS] of an image)."""
    features = model.explanation(batch.rows[0], scores=model.scores_of(seen.relevance, batch, 0)).laid_out()
    names = tuple(features.feature(n) for n in range(features.scores.size))
    if len(names) <= tokens <= len(names) + 8:
        return (*(f"[{n}]" for n in range(tokens - len(names))), *names)
    return tuple(str(n) for n in range(tokens))
