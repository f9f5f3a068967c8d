"""One forward pass and one backward pass under a recipe: from a target score to the relevance of the inputs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import _engine_run_backward

from whence.core.batch import Batch
from whence.core.interception import Interception, Leaf
from whence.core.ledger import Ledger
from whence.core.numerics import widened
from whence.core.recipe import Recipe
from whence.core.rules import table
from whence.errors import ModelError, NumericsError

__all__ = [
    "At",
    "Forward",
    "Propagation",
    "Receipt",
    "at_source",
    "backward",
    "intercepted",
    "propagate",
    "run",
    "there_and_back",
]

Forward = Callable[[dict[str, Any]], Any]
"""The model: its arguments to its outputs."""
Target = Callable[[Any], Tensor]
"""Outputs to one score per example."""
At = Literal["word", "embedding", "position"]
"""Where relevance is read: the word embedding, everything looked up for a token, or its position embedding alone."""
Receipt = Literal["short", "full"]
"""How much is booked: inputs and target, or every sink."""


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
    """The node of the score in the autograd graph, for `bypasses`."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Where something was computed that the mode did not see."""
    transformed: bool = False
    """Whether `torch.vmap` or the like was at work, which hides from the mode what carries relevance."""

    @cached_property
    def bypasses(self) -> tuple[str, ...]:
        """Names of what the mode could not look into: functions of the model's own, scripted and compiled parts."""
        return tuple(sorted(_names_between(self.root, self.gaps, self.transformed))) if self.gaps else ()


def propagate(
    forward: Forward,
    batch: Batch,
    *,
    target: Target,
    recipe: Recipe,
    receipt: Receipt = "full",
    at: At = "word",
    modules: nn.Module | None = None,
    rules: Callable[[Recipe], dict[str, Any]] = table,
) -> Propagation:
    """Explain `target(forward(inputs))`, one number per example, by the sources of the batch.

    >>> import torch
    >>> net = torch.nn.Linear(3, 1)
    >>> batch = Batch.of({"x": torch.ones(2, 3)}, "x")
    >>> from whence.core.recipe import recipes
    >>> p = propagate(lambda i: net(i["x"]), batch, target=lambda y: y[:, 0], recipe=recipes["gi"])
    >>> torch.allclose(p.inputs + p.sinks["bias"], p.target.double())
    True

    `modules` names the sinks after the modules of a model; `rules` makes the table from the recipe.
    """
    books = receipt != "short" or at != "word"
    ledger = Ledger(batch.examples, modules) if books else None
    mode = Interception(batch, rules(recipe), recipe=recipe, ledger=ledger, follows=_followed(batch, books, at))
    with closing(mode):
        grads, scores, outputs = there_and_back(mode, forward, target)
        return _collected(mode, grads, scores, outputs, at)


def _followed(batch: Batch, books: bool, at: At) -> tuple[str, ...]:
    if at != "word":
        return ("examples", "tokens")
    return ("examples",) if books and batch.examples > 1 else ()


def run(mode: Interception, forward: Forward, target: Target) -> tuple[Tensor, Any]:
    """The model and its target under a mode, with gradients: scores and outputs. The mode stays in force outside."""
    examples = mode.batch.examples
    outputs = forward(mode.prepared())
    mode.in_target = True
    scores = target(outputs)
    mode.in_target = False
    if scores.shape != (examples,):
        raise ValueError(f"a target must give one score per example: shape ({examples},), not {tuple(scores.shape)}")
    if not mode.leaves:
        raise ModelError(
            "the model never looked its token ids up in an embedding table, so there is nothing to explain. "
            "Pass the embedded input as a float tensor instead."
        )
    mode.in_backward = True
    if isinstance(mode.ledger, Ledger):
        # A part that is run again was booked the first time, unless it ran without gradients then.
        mode.ledger.open = mode.recomputes
    return scores, outputs


@contextmanager
def intercepted(mode: Interception) -> Iterator[None]:
    """The mode in force, gradients on, and compiled parts of the model as they were written, so that it sees them."""
    with torch.inference_mode(False), torch.enable_grad(), _as_written(), mode:
        yield


@contextmanager
def _as_written() -> Iterator[None]:
    if "torch._dynamo" not in sys.modules:  # then nothing is compiled, and it is slow to import
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def there_and_back(
    mode: Interception, forward: Forward, target: Target
) -> tuple[tuple[Tensor | None, ...], Tensor, Any]:
    """Run a model under a mode: gradients of the scores at `mode.leaves`, the scores, and the model's outputs."""
    with intercepted(mode):
        scores, outputs = run(mode, forward, target)
        if not scores.requires_grad:
            raise ModelError(
                "the target does not depend on the input: no gradient path from the score to the embeddings"
            )
        grads = backward(scores, [leaf.tensor for leaf in mode.leaves], reentrant=mode.recomputes)
    return grads, scores, outputs


def backward(
    scores: Tensor,
    leaves: list[Tensor],
    *,
    start: Tensor | None = None,
    reentrant: bool = False,
    keep: bool = False,
) -> tuple[Tensor | None, ...]:
    """∂ Σ scores / ∂ leaves (or from `start` instead of ones), with the mode in force.

    Checkpointed segments run their forward again inside the backward pass and must meet the same rules there.
    `torch.autograd.grad` would switch the mode off, because it goes through the mode itself; the engine does not.
    Reentrant checkpoints refuse to be told where the backward pass ends: there the leaves collect their gradients.
    """
    seed = (torch.ones_like(scores) if start is None else start,)
    if reentrant:
        _engine_run_backward((scores,), seed, keep, False, (), allow_unreachable=True, accumulate_grad=True)
        return tuple(leaf.grad for leaf in leaves)
    return _engine_run_backward(
        (scores,), seed, keep, False, tuple(leaves), allow_unreachable=True, accumulate_grad=False
    )


def _collected(
    mode: Interception, grads: tuple[Tensor | None, ...], target: Tensor, outputs: Any, at: At
) -> Propagation:
    ledger = mode.ledger if isinstance(mode.ledger, Ledger) else None
    batch = mode.batch
    root, target = target.grad_fn, target.detach()
    relevance: dict[str, Tensor] = {}
    with torch.no_grad():
        for leaf, grad in zip(mode.leaves, grads, strict=True):
            scores = None if grad is None else widened(leaf.tensor.detach()) * widened(grad)
            part = at_source(leaf, scores, batch)
            relevance[leaf.source] = relevance[leaf.source] + part if leaf.source in relevance else part
            if ledger and scores is not None and leaf.positions is not None and (leaf.positions < 0).any():
                ledger.looked_up(torch.where(leaf.positions >= 0, 0.0, scores.sum(-1)), leaf.layout)
        for name in batch.names:
            relevance.setdefault(name, torch.zeros_like(batch.inputs[name], dtype=torch.float32))
        sinks = ledger.by_kind() if ledger else {}
        if at != "word" and ledger is not None:
            relevance, sinks = _with_positions(relevance, sinks, ledger, batch.names[0], at)
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
        gaps=tuple(mode.gaps),
        transformed=mode.transformed,
    )


def _totals(relevance: dict[str, Tensor]) -> Tensor:
    """All relevance of each example."""
    parts = [r.flatten(1).sum(1, dtype=torch.float64 if r.device.type != "mps" else None) for r in relevance.values()]
    return torch.stack(parts).sum(0)


SCRIPTED = {"DifferentiableGraph": "torch.jit", "CompiledFunction": "torch.compile"}


def _names_between(root: Any, gaps: tuple[tuple[int, int], ...], transformed: bool) -> set[str]:
    """Nodes of the autograd graph under `root` that were made between our calls, as people know them."""
    seen, todo, found, compiled = set(), [root], set(), set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if any(first <= node._sequence_nr() < last for first, last in gaps):
            name = re.sub(r"Backward\d*$", "", node.name().rpartition("::")[2])
            known = next((known for part, known in SCRIPTED.items() if part in name), None)
            if known is not None or isinstance(node, BackwardCFunction):
                found.add(known or name)
            else:
                compiled.add(name.lower())
        todo.extend(parent for parent, _ in node.next_functions)
    if compiled:
        what = ", ".join(sorted(compiled)[:6])
        found.add("torch.vmap" if transformed else f"code outside Python, such as torch.jit ({what})")
    return found


def at_source(leaf: Leaf, scores: Tensor | None, batch: Batch) -> Tensor:
    """Scores of a leaf's elements, summed over channels and put back at the places they were looked up for.

    What was looked up for no token of the source (a model may put tokens of its own beside them) is left out.
    """
    source = batch.inputs[leaf.source]
    if scores is None:
        return torch.zeros_like(source, dtype=widened(leaf.tensor.detach()).dtype)
    if leaf.positions is None:
        return scores
    places = leaf.positions.reshape(-1)
    flat = torch.zeros(source.numel() + 1, device=source.device, dtype=scores.dtype)
    flat.index_add_(0, torch.where(places >= 0, places, source.numel()), scores.sum(-1).reshape(-1))
    return flat[:-1].view(source.shape)


def _with_positions(
    relevance: dict[str, Tensor], sinks: dict[str, Tensor], ledger: Ledger, source: str, at: At
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    share = ledger.positions()
    if share is None and relevance[source].shape[1] == 1 and "position" in sinks:
        share = sinks["position"].to(relevance[source].dtype)[:, None]  # a single token has them all
    if share is None:
        raise ModelError(
            f"at={at!r} needs position embeddings that are added to the word embeddings; this model has none. "
            "Use at='word'."
        )
    moved = share.sum(1, dtype=torch.float64)
    sinks = {**sinks, "position": sinks["position"] - moved}
    if at == "embedding":
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
