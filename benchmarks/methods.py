"""Methods that are timed: by hand, and with whence. Each is a function without arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

import whence
from benchmarks.workloads import Workload
from whence.core.batch import Batch
from whence.core.interception import Interception, as_it_is
from whence.core.propagation import propagate
from whence.core.recipe import recipes
from whence.core.rules import table

__all__ = [
    "PRESETS",
    "RECEIPTS",
    "by_hand",
    "by_hand_intercepted",
    "frozen",
    "ours",
    "plain_forward",
    "through_api",
    "with_graph",
]

PRESETS = ("gi", "ah_ln", "exact", "attn_lrp")
RECEIPTS = ("short", "full")


def plain_forward(work: Workload) -> Tensor:
    """The unit: one forward pass, nothing kept."""
    with torch.no_grad():
        return work.target(work.forward(work.inputs))


def with_graph(work: Workload) -> Tensor:
    """A forward pass that keeps what a backward pass would need."""
    return work.target(work.forward(work.inputs))


def by_hand(work: Workload) -> Tensor:
    """Gradient×Input as one would write it: frozen weights, embedded inputs with a gradient."""
    with frozen(work.module):
        inputs = work.embedded()
        x = inputs["inputs_embeds"].requires_grad_()
        (grad,) = torch.autograd.grad(work.target(work.forward(inputs)).sum(), x)
        return (x.detach() * grad).sum(-1)


def by_hand_intercepted(work: Workload) -> Tensor:
    """The same computation seen by the mode, every rule of which runs the function as it is."""
    inputs = work.embedded()
    mode = Interception(Batch.of(inputs, "inputs_embeds"), dict.fromkeys(table(recipes["gi"]), as_it_is))
    with frozen(work.module):
        with mode:
            scores = work.target(work.forward(mode.prepared()))
        leaf = mode.leaves[0].tensor
        (grad,) = torch.autograd.grad(scores.sum(), leaf)
        return (leaf.detach() * grad).sum(-1)


def relevance(work: Workload, preset: str, receipt: str) -> Tensor:
    """One of whence's presets through the core."""
    done = propagate(
        work.forward,
        Batch.of(work.inputs, "input_ids"),
        target=work.target,
        recipe=recipes[preset],
        receipt=receipt,  # type: ignore[arg-type]
    )
    return done.relevance["input_ids"]


def through_api(work: Workload, preset: str, receipt: str) -> Tensor:
    """The same through `whence.explain`: also batches, names, predictions and receipts."""
    done = whence.explain(work.module, work.inputs, preset, work.label, receipt=receipt, progress=False)
    rows = done if isinstance(done, list) else [done]
    return torch.stack([torch.tensor(row.scores) for row in rows])


def ours(
    work: Workload, presets: Sequence[str] = PRESETS, receipts: Sequence[str] = RECEIPTS
) -> dict[str, Callable[[], Tensor]]:
    """Presets of whence by name, each with each receipt."""
    return {f"{p}, {r}": partial(relevance, work, p, r) for p in presets for r in receipts}


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Parameters without gradients, for as long as it takes."""
    trained = [p for p in module.parameters() if p.requires_grad]
    for p in trained:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in trained:
            p.requires_grad_(True)
