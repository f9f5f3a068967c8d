"""One forward pass and one backward pass under a recipe: from a target score to the relevance of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import _engine_run_backward

from whence.core.backward import OUR_FUNCTIONS
from whence.core.interception import Interception, Leaf
from whence.core.ledger import Ledger
from whence.core.numerics import widened
from whence.core.recipe import Recipe
from whence.core.rules import table
from whence.core.trail import trace
from whence.errors import ModelError, NumericsError
from whence.types import Layer, Receipt

__all__ = ["Propagation", "at_source", "backward", "propagate", "there_and_back"]


@dataclass(frozen=True)
class Propagation:
    """What a backward pass brought back, for a batch."""

    relevance: dict[str, Tensor]
    """Per source: (batch, token) for ids that were looked up, the shape of the input for float inputs."""
    target: Tensor
    """The explained score, one per example."""
    inputs: Tensor
    """Relevance of all inputs together, one number per example."""
    outputs: Any
    """What the model returned, detached."""
    sinks: dict[str, Tensor] = field(default_factory=dict)
    """Per kind of sink, one amount per example. Empty with a short receipt."""
    unruled: dict[str, int] = field(default_factory=dict)
    """Functions without a rule and how often they were called."""
    ledger: Ledger | None = None
    root: Any = None
    """The node of the score in the autograd graph, for `custom_functions`."""

    def custom_functions(self) -> list[str]:
        """Names of `torch.autograd.Function`s of the model: no mode can look into them."""
        return sorted(_custom_functions(self.root))


def propagate(
    forward: Callable[[dict[str, Any]], Any],
    inputs: Mapping[str, Any],
    *,
    sources: tuple[str, ...],
    target: Callable[[Any], Tensor],
    recipe: Recipe,
    receipt: Receipt = "full",
    layer: Layer = "word",
    module: nn.Module | None = None,
    interception: Callable[..., Interception] = Interception,
) -> Propagation:
    """Explain `target(forward(inputs))`, one number per example, by the inputs named in `sources`.

    >>> import torch
    >>> net = torch.nn.Linear(3, 1)
    >>> x = torch.ones(2, 3)
    >>> from whence.core.recipe import recipes
    >>> p = propagate(lambda i: net(i["x"]), {"x": x}, sources=("x",), target=lambda y: y[:, 0], recipe=recipes["gi"])
    >>> torch.allclose(p.inputs + p.sinks["bias"], p.target.double())
    True
    """
    first = inputs[sources[0]]
    examples = first.shape[0]
    length = first.shape[1] if first.dim() > 1 else None
    wants_ledger = receipt != "short" or layer != "word"
    ledger = Ledger(examples, length, module if receipt == "layers" else None) if wants_ledger else None
    mode = interception(recipe, table(recipe), ledger=ledger)
    with closing(mode):
        grads, scores, outputs = there_and_back(mode, forward, inputs, sources, target)
        return _collected(mode, grads, inputs, sources, scores, outputs, layer)


def there_and_back(
    mode: Interception,
    forward: Callable[[dict[str, Any]], Any],
    inputs: Mapping[str, Any],
    sources: tuple[str, ...],
    target: Callable[[Any], Tensor],
) -> tuple[tuple[Tensor | None, ...], Tensor, Any]:
    """Run a model under a mode: gradients of the scores at `mode.leaves`, the scores, and the model's outputs."""
    examples = inputs[sources[0]].shape[0]
    prepared = dict(inputs)
    with torch.enable_grad(), mode:
        for name in sources:
            value = inputs[name]
            prepared[name] = mode.leaf(name, value) if value.is_floating_point() else trace(name, value)
        outputs = forward(prepared)
        scores = target(outputs)
        if scores.shape != (examples,):
            raise ValueError(
                f"a target must give one score per example: shape ({examples},), not {tuple(scores.shape)}"
            )
        if not mode.leaves:
            raise ModelError(
                "the model never looked its token ids up in an embedding table, so there is nothing to explain. "
                "Pass the embedded input as a float tensor instead."
            )
        mode.in_backward = True
        if isinstance(mode.ledger, Ledger):
            # A part that is run again was booked the first time, unless it ran without gradients then.
            mode.ledger.open = mode.recomputes
        if not scores.requires_grad:
            raise ModelError(
                "the target does not depend on the input: no gradient path from the score to the embeddings"
            )
        grads = backward(scores, [leaf.tensor for leaf in mode.leaves], reentrant=mode.recomputes)
    return grads, scores, outputs


def backward(scores: Tensor, leaves: list[Tensor], *, reentrant: bool = False) -> tuple[Tensor | None, ...]:
    """∂ Σ scores / ∂ leaves, with the mode in force.

    Checkpointed segments run their forward again inside the backward pass and must meet the same rules there.
    `torch.autograd.grad` would switch the mode off, because it goes through the mode itself; the engine does not.
    Reentrant checkpoints refuse to be told where the backward pass ends: there the leaves collect their gradients.
    """
    if reentrant:
        start = (torch.ones_like(scores),)
        _engine_run_backward((scores,), start, False, False, (), allow_unreachable=True, accumulate_grad=True)
        return tuple(leaf.grad for leaf in leaves)
    return _engine_run_backward(
        (scores,),
        (torch.ones_like(scores),),
        False,
        False,
        tuple(leaves),
        allow_unreachable=True,
        accumulate_grad=False,
    )


def _collected(
    mode: Interception,
    grads: tuple[Tensor | None, ...],
    inputs: Mapping[str, Any],
    sources: tuple[str, ...],
    target: Tensor,
    outputs: Any,
    layer: Layer,
) -> Propagation:
    ledger = mode.ledger if isinstance(mode.ledger, Ledger) else None
    root, target = target.grad_fn, target.detach()
    relevance: dict[str, Tensor] = {}
    with torch.no_grad():
        elsewhere = torch.zeros_like(target, dtype=torch.float64)
        for leaf, grad in zip(mode.leaves, grads, strict=True):
            part, rest = _relevance_at_source(leaf, grad, inputs[leaf.source])
            relevance[leaf.source] = relevance[leaf.source] + part if leaf.source in relevance else part
            elsewhere = elsewhere + rest
        for name in sources:
            relevance.setdefault(name, torch.zeros_like(inputs[name], dtype=torch.float32))
        sinks = ledger.by_kind() if ledger else {}
        if ledger and elsewhere.any():
            sinks["constant"] = sinks.get("constant", 0) + elsewhere
        if layer != "word" and ledger is not None:
            relevance, sinks = _with_positions(relevance, sinks, ledger, sources[0], layer)
        total = _totals(relevance)
    if not (torch.isfinite(total) & torch.isfinite(target)).all():
        raise NumericsError(_not_finite(target))
    return Propagation(
        relevance=relevance,
        target=target,
        inputs=total,
        outputs=outputs,
        sinks=sinks,
        unruled=dict(mode.unruled),
        ledger=ledger,
        root=root,
    )


def _totals(relevance: dict[str, Tensor]) -> Tensor:
    """All relevance of each example."""
    parts = [r.flatten(1).sum(1, dtype=torch.float64 if r.device.type != "mps" else None) for r in relevance.values()]
    return torch.stack(parts).sum(0)


def _custom_functions(root: Any) -> set[str]:
    """Python-defined nodes of the autograd graph under `root` that are not ours."""
    seen, todo, found = set(), [root], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, BackwardCFunction):
            name = type(node).__name__.removesuffix("Backward")
            if name not in OUR_FUNCTIONS:
                found.add(name)
        todo.extend(parent for parent, _ in node.next_functions)
    return found


def _relevance_at_source(leaf: Leaf, grad: Tensor | None, source: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance x·∂f/∂x in float32 at least, put back at the places of the source; see `at_source`."""
    value = widened(leaf.tensor.detach())
    return at_source(leaf, None if grad is None else value * widened(grad), source)


def at_source(leaf: Leaf, scores: Tensor | None, source: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of a leaf's elements, summed over channels and put back at the places they were looked up for.

    Second comes what belongs to no token of the source: a model may put tokens of its own beside them.
    """
    nothing = torch.zeros(source.shape[0], device=source.device, dtype=torch.float64)
    if scores is None:
        return torch.zeros_like(source, dtype=widened(leaf.tensor.detach()).dtype), nothing
    if leaf.positions is None:
        return scores, nothing
    scores = scores.sum(-1)
    places = leaf.positions.reshape(-1)
    known = places >= 0
    flat = torch.zeros(source.numel(), device=source.device, dtype=scores.dtype)
    flat.index_add_(0, places[known], scores.reshape(-1)[known])
    by_example = scores.shape[0] == source.shape[0] or (scores.dim() == 1 and scores.numel() % source.shape[0] == 0)
    if by_example and not known.all():
        rows = torch.where(known, 0.0, scores.reshape(-1)).view(source.shape[0], -1)
        nothing = rows.sum(1, dtype=torch.float64)
    return flat.view(source.shape), nothing


def _with_positions(
    relevance: dict[str, Tensor], sinks: dict[str, Tensor], ledger: Ledger, source: str, layer: Layer
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    if ledger.positions is None:
        raise ModelError(
            f"layer={layer!r} needs position embeddings that are added to the word embeddings; this model has none. "
            "Use layer='word'."
        )
    share = ledger.positions
    moved = share.sum(1, dtype=torch.float64)
    sinks = {**sinks, "position": sinks["position"] - moved}
    if layer == "embedding":
        return {**relevance, source: relevance[source] + share}, sinks
    words = _totals(relevance)
    return {source: share}, {**sinks, "word": words}


def _not_finite(target: Tensor) -> str:
    half = target.dtype == torch.float16
    if not torch.isfinite(target).all():
        cause = "the explained score itself is not finite"
    else:
        cause = "the backward pass gave values that are not finite"
    advice = (
        "float16 overflows easily: load the model with dtype='bfloat16' or dtype='float32'."
        if half
        else "Check the model's weights for NaN (whence.audit shows where it begins)."
    )
    return f"{cause}. {advice}"
