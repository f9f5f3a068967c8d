"""One forward pass and one backward pass under a recipe: from a target score to the relevance of the inputs."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import _engine_run_backward

from whence.core.batch import Batch
from whence.core.interception import Interception, Leaf, watched
from whence.core.ledger import Ledger
from whence.core.memory import planned
from whence.core.numerics import wide_of, widened
from whence.core.recipe import Recipe
from whence.core.rules import table
from whence.errors import ModelError, NumericsError

__all__ = [
    "At",
    "Forward",
    "Propagation",
    "Receipt",
    "Target",
    "Walk",
    "account",
    "at_source",
    "backward",
    "followed",
    "gathered",
    "intercepted",
    "names_between",
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
    """The explained score, one per example, on the CPU, as are all sums."""
    inputs: Tensor
    """Relevance of all inputs together, one number per example."""
    outputs: Any
    """What the model returned, detached."""
    sinks: dict[str, Tensor] = field(default_factory=dict)
    """Per kind of sink, one amount per example. Empty with a short receipt."""
    unruled: dict[str, int] = field(default_factory=dict)
    """Functions without a rule and how often they were called."""
    ledger: Ledger | None = None
    is_split: bool = True
    """Whether every sink could be given to an example."""
    bypassed: Callable[[], Iterable[str]] = tuple

    @cached_property
    def bypasses(self) -> tuple[str, ...]:
        """Names of what the mode could not look into: functions of the model's own, scripted and compiled parts."""
        return tuple(sorted(self.bypassed()))


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
    mode = Interception(batch, rules(recipe), recipe=recipe, ledger=ledger, follows=followed(batch, books, at))
    with closing(mode):
        grads, scores, outputs = there_and_back(mode, forward, target)
        return _collected(mode, grads, scores, outputs, at)


class Walk:
    """One forward pass under a recipe, and as many backward passes as are asked for.

    `targets` makes scores (target, example) of the outputs. Each pass goes back from a weighted sum of them.

    >>> import torch
    >>> from whence.core.recipe import recipes
    >>> net = torch.nn.Linear(3, 2, bias=False)
    >>> batch = Batch.of({"x": torch.ones(1, 3)}, "x")
    >>> with Walk(lambda i: net(i["x"]), batch, targets=lambda y: y.T, recipe=recipes["gi"]) as walk:
    ...     parts = [walk.back([1.0, 0.0]), walk.back([0.0, 1.0])]
    ...     both = walk.back([1.0, 1.0])
    >>> torch.allclose(parts[0].inputs + parts[1].inputs, both.inputs)
    True
    """

    def __init__(
        self,
        forward: Forward,
        batch: Batch,
        *,
        targets: Target,
        recipe: Recipe,
        receipt: Receipt = "full",
        at: At = "word",
    ):
        self._again = partial(propagate, forward, batch, recipe=recipe, receipt=receipt, at=at)
        self._forward, self._targets, self._at = forward, targets, at
        books = receipt != "short" or at != "word"
        ledger = Ledger(batch.examples) if books else None
        self.mode = Interception(batch, table(recipe), recipe=recipe, ledger=ledger, follows=followed(batch, books, at))
        self.scores = torch.empty(0)
        """(target, example), on the CPU."""
        self.rows = self.scores
        """The same where they were computed, with their graph: while the walk is entered."""

    def __enter__(self) -> Walk:
        found: list[Tensor] = []

        def first(outputs: Any) -> Tensor:
            found.append(self._targets(outputs))
            return found[0][0]

        self._held = ExitStack()
        self._held.enter_context(closing(self.mode))
        try:
            with self.going():
                _, self._outputs = run(self.mode, self._forward, first)
        except BaseException:
            self._held.close()
            raise
        self.rows = found[0]
        self.scores = self.rows.detach().cpu()
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()
        del self.rows, self._outputs

    @contextmanager
    def going(self) -> Iterator[None]:
        """The mode in force."""
        with intercepted(self.mode), planned("keep"):  # a block that ran again is gone after the first pass
            yield

    def back(self, weights: Sequence[float] | Tensor) -> Propagation:
        """From the sum of the targets, each times its weight."""
        factors = torch.as_tensor(weights, dtype=self.rows.dtype, device=self.rows.device)
        if not self.rows.requires_grad or self.mode.recomputes:  # the model drops its own graph
            return self._again(target=lambda outputs: factors @ self._targets(outputs))
        mode = self.mode
        if isinstance(mode.ledger, Ledger):
            mode.ledger.begin_again()
        with torch.enable_grad():
            target = factors @ self.rows
        start = factors[:, None].expand_as(self.rows)
        with self.going():
            grads = backward(self.rows, [leaf.tensor for leaf in mode.leaves], start=[start], keep=True)
            return _collected(mode, grads, target, self._outputs, self._at)


def followed(batch: Batch, books: bool, at: At) -> tuple[str, ...]:
    if at != "word":
        return ("examples", *batch.names)
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
            "the model never looked its token ids up in an embedding table, or did so under torch.no_grad(), so there "
            "is nothing to explain. Pass the embedded input as a float tensor instead."
        )
    mode.in_backward = True
    if isinstance(mode.ledger, Ledger):
        # A part that is run again was booked the first time, unless it ran without gradients then.
        mode.ledger.open = mode.recomputes
    return scores, outputs


@contextmanager
def intercepted(mode: Interception) -> Iterator[None]:
    """The mode in force, gradients on, and compiled parts of the model as they were written, so that it sees them."""
    with torch.inference_mode(False), torch.enable_grad(), _eager, watched, mode:
        yield


class _Eager:
    """Compiled parts run as they were written while anybody explains. torch's switch is one for all threads."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.stance: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0 and "torch._dynamo" in sys.modules:  # else nothing is compiled, and it is slow to import
                self.stance = torch.compiler.set_stance("force_eager")
                self.stance.__enter__()
            self.users += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0 and self.stance is not None:
                self.stance.__exit__(None, None, None)
                self.stance = None


_eager = _Eager()


def there_and_back(
    mode: Interception, forward: Forward, target: Target
) -> tuple[tuple[Tensor | None, ...], Tensor, Any]:
    """Run a model under a mode: gradients of the scores at `mode.leaves`, the scores, and the model's outputs."""
    with intercepted(mode):
        scores, outputs = run(mode, forward, target)
        if not scores.requires_grad:
            raise ModelError(
                "the target does not depend on the input in a way that this recipe sees: nothing but constants leads "
                "to it. Explain an output before the model's last function (a logarithm, a distance, a root), run no "
                "part of the model under torch.no_grad(), or take gradients: method='gi'"
            )
        reentrant = mode.recomputes and _has_checkpoint(scores.grad_fn)
        try:
            grads = backward(scores, [leaf.tensor for leaf in mode.leaves], reentrant=reentrant)
        except (AssertionError, NotImplementedError) as error:
            if not mode.with_own_gradient:
                raise
            raise ModelError(
                f"the model goes back over {' and '.join(sorted(mode.with_own_gradient))} by code of its own, which "
                f"failed: {' '.join(str(error).split())} Propagation runs such functions line by line: method='lrp'"
            ) from error
    return grads, scores, outputs


def _has_checkpoint(root: Any) -> bool:
    """Whether a part of the graph is a reentrant checkpoint, which refuses to be told where the pass ends."""
    return any(type(node).__name__ == "CheckpointFunctionBackward" for node in nodes_under(root))


def nodes_under(root: Any) -> Iterator[Any]:
    """Every node of an autograd graph, once."""
    seen, todo = {None}, [root]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            yield node
            todo.extend(parent for parent, _ in node.next_functions)


def backward(
    scores: Tensor | Sequence[Tensor],
    leaves: list[Tensor],
    *,
    start: Sequence[Tensor] | None = None,
    reentrant: bool = False,
    keep: bool = False,
    again: bool = False,
) -> tuple[Tensor | None, ...]:
    """∂ Σ scores / ∂ leaves (or from `start` instead of ones), with the mode in force.

    With `again`, what comes out can be differentiated in turn: there the mode must not be in force, or its rules would
    meet the gradients.

    Checkpointed segments run their forward again inside the backward pass and must meet the same rules there.
    `torch.autograd.grad` would switch the mode off, because it goes through the mode itself; the engine does not.
    Reentrant checkpoints refuse to be told where the backward pass ends: there the leaves collect their gradients.
    """
    roots = (scores,) if isinstance(scores, Tensor) else tuple(scores)
    seed = tuple(map(torch.ones_like, roots) if start is None else start)
    if reentrant:
        _engine_run_backward(roots, seed, keep, False, (), allow_unreachable=True, accumulate_grad=True)
        return tuple(leaf.grad for leaf in leaves)
    return _engine_run_backward(roots, seed, keep, again, tuple(leaves), allow_unreachable=True, accumulate_grad=False)


def gathered(mode: Interception, grads: Sequence[Tensor | None], target: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Relevance per source, and every number of the account in one row: nothing here waits for the device."""
    batch, ledger = mode.batch, mode.ledger if isinstance(mode.ledger, Ledger) else None
    relevance: dict[str, Tensor] = {}
    with torch.no_grad():
        for leaf, grad in zip(mode.leaves, grads, strict=True):
            scores = None if grad is None else widened(leaf.tensor.detach()) * widened(grad)
            part = at_source(leaf, scores, batch)
            relevance[leaf.source] = relevance[leaf.source] + part if leaf.source in relevance else part
            if ledger and scores is not None and leaf.positions is not None and not leaf.whole:
                ledger.looked_up(torch.where(leaf.positions >= 0, 0.0, _by_place(leaf, scores)), leaf.layout)
        for name in batch.names:
            relevance.setdefault(name, torch.zeros_like(batch.inputs[name], dtype=torch.float32))
        numbers = [_totals(relevance), target.detach(), *([ledger.packed()] if ledger else [])]
        wide = wide_of(target.device)
        return relevance, torch.cat([n.to(target.device, wide) for n in numbers])


class Account(NamedTuple):
    """What `gathered` says of each example, on the CPU."""

    inputs: Tensor
    target: Tensor
    sinks: dict[str, Tensor]


def account(
    numbers: Tensor, examples: int, ledger: Ledger | None, dtype: torch.dtype, rows: int | None = None
) -> Account:
    """The numbers of the first `rows` examples, read. An error where one of them is not finite."""
    inputs, target = numbers[:examples][:rows], numbers[examples : 2 * examples][:rows]
    if not (torch.isfinite(inputs) & torch.isfinite(target)).all():
        raise NumericsError(_not_finite(target, dtype))
    sinks = ledger.read(numbers[2 * examples :]) if ledger else {}
    return Account(inputs, target, {kind: amount[:rows] for kind, amount in sinks.items()})


def _collected(
    mode: Interception, grads: tuple[Tensor | None, ...], target: Tensor, outputs: Any, at: At
) -> Propagation:
    ledger = mode.ledger if isinstance(mode.ledger, Ledger) else None
    relevance, numbers = gathered(mode, grads, target)
    inputs, scores, sinks = account(numbers.cpu(), mode.batch.examples, ledger, target.dtype)
    if at != "word" and ledger is not None:
        with torch.no_grad():
            relevance, sinks = _with_positions(relevance, sinks, ledger, mode.batch.names, at)
            inputs = _totals(relevance).cpu()
    return Propagation(
        relevance=relevance,
        target=scores.to(target.dtype),
        inputs=inputs,
        outputs=outputs,
        sinks=sinks,
        unruled=dict(mode.unruled),
        ledger=ledger,
        is_split=ledger is None or ledger.is_split,
        bypassed=partial(names_between, target.grad_fn, tuple(mode.gaps), mode.transformed),
    )


def _totals(relevance: dict[str, Tensor]) -> Tensor:
    """All relevance of each example."""
    return torch.stack([r.flatten(1).sum(1, dtype=wide_of(r.device)) for r in relevance.values()]).sum(0)


SCRIPTED = {"DifferentiableGraph": "torch.jit", "CompiledFunction": "torch.compile"}


def names_between(root: Any, gaps: tuple[tuple[int, int], ...], transformed: bool) -> set[str]:
    """Nodes of the autograd graph under `root` that were made between our calls, as people know them."""
    found, compiled = set(), set()
    for node in nodes_under(root) if gaps else ():
        if any(first <= node._sequence_nr() < last for first, last in gaps):
            name = re.sub(r"Backward\d*$", "", node.name().rpartition("::")[2])
            known = next((known for part, known in SCRIPTED.items() if part in name), None)
            if known is not None or isinstance(node, BackwardCFunction):
                found.add(known or name)
            else:
                compiled.add(name.lower())
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
    flat.index_add_(0, torch.where(places >= 0, places, source.numel()), _by_place(leaf, scores).reshape(-1))
    return flat[:-1].view(source.shape)


def _by_place(leaf: Leaf, scores: Tensor) -> Tensor:
    """Scores of looked-up vectors (or numbers, or matrices), one for each lookup."""
    assert leaf.positions is not None
    return scores.flatten(leaf.positions.dim()).sum(-1) if scores.dim() > leaf.positions.dim() else scores


def _with_positions(
    relevance: dict[str, Tensor], sinks: dict[str, Tensor], ledger: Ledger, sources: Sequence[str], at: At
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    shares = {name: share for n, name in enumerate(sources) if (share := ledger.positions(n)) is not None}
    rest = sinks.get("position")
    for share in shares.values():
        rest = None if rest is None else rest - share.sum(1, dtype=wide_of(share.device)).cpu()
    single = [name for name in sources if name not in shares and relevance[name].shape[1] == 1]
    if rest is not None and len(single) == 1:  # a single token has what is left
        shares[single[0]], rest = rest.to(relevance[single[0]])[:, None], torch.zeros_like(rest)
    if not shares or rest is None:
        raise ModelError(
            f"at={at!r} needs position embeddings that are added to the word embeddings; this model has none. "
            "Use at='word'."
        )
    sinks = {**sinks, "position": rest}
    if at == "embedding":
        return {name: r + shares[name] if name in shares else r for name, r in relevance.items()}, sinks
    zeros = {name: torch.zeros_like(r) for name, r in relevance.items()}
    return {**zeros, **shares}, {**sinks, "word": _totals(relevance).cpu()}


def _not_finite(target: Tensor, dtype: torch.dtype) -> str:
    half = dtype == torch.float16
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
