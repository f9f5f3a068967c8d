"""One pass through a model, there and back, and what it saw at the places inside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from whence.core.batch import Batch
from whence.core.interception import Change, Interception
from whence.core.ledger import Ledger
from whence.core.memory import planned
from whence.core.numerics import wide_of, widened
from whence.core.place_watch import PlaceWatch
from whence.core.places import KINDS, PassedBy, Place
from whence.core.propagation import Forward, Target, account, followed, gathered, there_and_back
from whence.core.recipe import Recipe
from whence.core.rules import table

__all__ = ["Crossing", "inside"]


@dataclass(frozen=True)
class Crossing:
    """What a pass through a model saw at its places."""

    places: list[Place]
    """In the order in which they were computed."""
    relevance: dict[str, Tensor]
    """Of the sources, as everywhere."""
    target: float
    inputs: float
    sinks: dict[int, dict[str, float]]
    """By stage, then by kind."""
    outputs: Any
    unruled: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    """Names of the blocks that ran, first to last; one that ran twice is there twice."""
    beside: dict[int, float] = field(default_factory=dict)
    """By stage, the relevance of inputs that came in there."""
    passing: tuple[PassedBy, ...] = ()

    def of(self, kind: str, name: str | None = None) -> list[Place]:
        """The places of a kind, or of one module."""
        return [p for p in self.places if p.kind == kind and (name is None or p.name == name)]

    def above(self, layer: int) -> dict[str, float]:
        """By kind, what was absorbed behind a layer, the `inputs` that came in there, and what passed `beside`."""
        found: dict[str, float] = defaultdict(float)
        for stage, amounts in self.sinks.items():
            if stage > layer:
                for kind, amount in amounts.items():
                    found[kind] += amount
        later = sum(amount for stage, amount in self.beside.items() if stage > layer)
        past = sum(one.amount for one in self.passing if one.made <= layer < one.block)
        return {**found, **({"inputs": later} if later else {}), **({"beside": past} if past else {})}


def inside(
    forward: Forward,
    batch: Batch,
    *,
    module: nn.Module,
    target: Target,
    recipe: Recipe,
    kinds: Sequence[str] = KINDS,
    modules: Sequence[str] = (),
    maps: bool = False,
    change: Change | None = None,
) -> Crossing:
    """One pass there and back over a batch of one example, with a look at its places. `maps` lets heads be asked for
    what they mix.

    `change` gives the embeddings other values than the model's own, see `core.gradients`.

    >>> import torch
    >>> from whence.core.recipe import recipes
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 1))
    >>> batch = Batch.of({"x": torch.ones(1, 3)}, "x")
    >>> seen = inside(lambda i: net(i["x"]), batch, module=net, target=lambda y: y[:, 0], recipe=recipes["exact"],
    ...               kinds=(), modules=["0"])
    >>> hidden = seen.of("module")[0].relevance.sum()
    >>> bool(torch.isclose(hidden + net[2].bias[0], torch.tensor(seen.target), atol=1e-6))
    True
    """
    ledger = Ledger(batch.examples)
    watch = PlaceWatch(module, kinds, modules, ledger, maps=maps)
    mode = Interception(
        batch, watch.rules(table(recipe)), recipe=recipe, ledger=ledger, change=change,
        follows=followed(batch, True, "word"),
    )  # fmt: skip

    def scored(outputs: Any) -> Tensor:
        watch.end()
        return target(outputs)

    with closing(mode), planned("keep"), watch.hooked():  # a block that ran again would be noted twice
        grads, scores, outputs = there_and_back(mode, forward, scored)
        relevance, numbers = gathered(mode, grads, scores)
        inputs, explained, _ = account(numbers.cpu(), batch.examples, ledger, scores.dtype)
        beside: dict[int, float] = defaultdict(float)
        for leaf, grad in zip(mode.leaves, grads, strict=True):
            if grad is not None:
                own = widened(leaf.tensor.detach()) * widened(grad)
                beside[leaf.stage] += float(own.sum(dtype=wide_of(own.device)))
    sinks: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry, amount in ledger.amounts.items():
        sinks[entry.stage][ledger.kind_of(entry)] += float(amount.sum())
    return Crossing(
        places=watch.places,
        relevance=relevance,
        target=float(explained[0]),
        inputs=float(inputs[0]),
        sinks={stage: dict(kinds) for stage, kinds in sinks.items()},
        outputs=outputs,
        unruled=tuple(sorted(mode.unruled)),
        layers=tuple(watch.layers),
        beside=dict(beside),
        passing=tuple(watch.passing),
    )
