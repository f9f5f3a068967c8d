"""Attention as it happens, map by map, with no map held: memory stays linear in the input.

`stream` shows every map with its gradient on the way back, last layer first. `look` runs forward alone: it keeps the
queries and keys of every attention, drops what the backward pass would need but for the layers above the last
attention, and so learns which rows the score is read from.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from whence.core.batch import Batch
from whence.core.call import Call, is_tainted
from whence.core.capture import AttentionMap, Recorder, as_heads
from whence.core.interception import Interception
from whence.core.kernels.attention_map import AttentionOperator
from whence.core.kernels.kept_attention import kept_attention
from whence.core.kernels.layer_map import AbstractMap, FusedMap, WrittenMap
from whence.core.memory import planned
from whence.core.propagation import Forward, backward, intercepted, run
from whence.core.recipe import recipes
from whence.core.rules import softmax, table

__all__ = ["Streamed", "Visitor", "look", "stream"]

Visitor = Callable[[AttentionMap, AbstractMap], None]
"""Called with the description of an attention and the attention itself, its gradient included."""


@dataclass
class Streamed:
    """What a pass saw of the attentions, first layer first."""

    maps: list[AttentionMap]
    held: list[AbstractMap]
    """The attentions themselves, after `look`: all, or the last alone."""
    activations: dict[int, Tensor | None]
    """After `stream`, by number: Σ_d state · gradient of what was attended to, (batch, token). None where the score
    does not depend on it."""
    outputs: Any
    target: Tensor
    in_parts: int = 0


class _Showing(Recorder):
    """Shows every map in the backward pass."""

    def __init__(self, batch: Batch, visitor: Visitor, *, states: bool):
        super().__init__(batch)
        self.visitor, self.wants_states = visitor, states
        self.activations: dict[int, Tensor | None] = {}

    def fused(self, call: Call) -> Any:
        found = operator_of(call)
        if found is None or not self.is_whole(found[0].q if is_tainted(found[0].q) else found[1]):
            return super().fused(call)
        operator, v = found
        if call.interception.in_backward:  # a block runs again: it was seen in the forward pass
            return kept_attention(operator, v, _unseen)
        made = self.noted(operator, v)
        out = kept_attention(operator, v, partial(self.visitor, made))
        made.nodes = (*made.nodes[:2], out.grad_fn)
        if self.wants_states and self.states is not None:
            self.keep_states(made, self.states, operator.k.shape[-2])
        return out

    def noted(self, operator: AttentionOperator, v: Tensor) -> AttentionMap:
        made = AttentionMap(len(self.maps), None, operator.q.shape[1], nodes=(operator.q.grad_fn, v.grad_fn, None))
        self.maps.append(made)
        return made

    def close(self) -> None:
        super().close()
        self.visitor, self.activations = _not_shown, {}

    def linear(self, call: Call) -> Any:
        return self.base[call.name](call) if call.interception.in_backward else super().linear(call)

    def keep_states(self, made: AttentionMap, states: Tensor, tokens: int) -> None:
        if self.wants_states:
            super().keep_states(made, states, tokens)
            if made.states is not None:
                self.activations[made.number] = None

    def seen(self, made: AttentionMap) -> None:
        assert made.probabilities is not None
        self.visitor(made, WrittenMap(made.probabilities, made.gradient))
        made.probabilities = made.gradient = None

    def seen_states(self, made: AttentionMap) -> None:
        states, gradient = made.states, made.states_gradient
        made.states = made.states_gradient = None
        if states is not None and gradient is not None:
            self.activations[made.number] = (states.float() * gradient.float()).sum(-1)


def operator_of(call: Call) -> tuple[AttentionOperator, Tensor] | None:
    """The map of a fused call and its values; None for calls of another shape, or with a mask that the input made."""
    a = softmax.bound_arguments(call)
    q, k, v, mask = a["query"], a["key"], a["value"], a["attn_mask"]
    carries = is_tainted(q) or is_tainted(k) or is_tainted(v)
    if not carries or is_tainted(mask) or not AttentionOperator.takes(q, k, v):
        return None
    return AttentionOperator(q, k, mask, a["is_causal"], a["scale"]), v


def _unseen(shown: FusedMap) -> None:
    """For a block that runs again: nobody calls this, but it saves what the block saved before."""


class _Tied(torch.autograd.Function):
    """A result that depends on its arguments as far as anybody can see, and whose gradient is not asked for."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, *arguments: Tensor) -> Tensor:
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        raise AssertionError("the backward pass ends at the last attention")


class _Looking(_Showing):
    """Keeps queries and keys, and lets everything below the attention that runs now be dropped."""

    def __init__(self, batch: Batch, forget: Callable[[], None], *, only_last: bool):
        super().__init__(batch, _not_shown, states=False)
        self.forget, self.only_last = forget, only_last
        self.held: list[AbstractMap] = []
        self.end: Tensor | None = None
        """What the last attention gave, or its probabilities."""
        self.end_layout: Any = None

    def fused(self, call: Call) -> Any:
        found = operator_of(call)
        if found is None or not self.is_whole(found[0].q if is_tainted(found[0].q) else found[1]):
            return super().fused(call)
        operator, v = found
        made = self.noted(operator, v)
        plain = replace(operator, q=operator.q.detach(), k=operator.k.detach())
        with torch.no_grad():
            out, lse = plain.attend(v.detach())
        self._hold(FusedMap(replace(plain, lse=lse), v.detach()))
        tied: Tensor = _Tied.apply(out, operator.q, operator.k, v)  # type: ignore[no-untyped-call]
        made.nodes = (*made.nodes[:2], tied.grad_fn)
        self.end = tied
        return tied

    def keep(self, probability: Tensor, heads: Tensor, values: Tensor) -> AttentionMap:
        made = super().keep(probability, heads, values)
        self._hold(WrittenMap(heads.detach()))
        made.probabilities = None
        assert self.last is not None
        self.end, self.end_layout = self.last
        return made

    def seen(self, made: AttentionMap) -> None:
        """Its gradient is read off the pass."""

    def close(self) -> None:
        super().close()
        self.forget()
        self.held, self.end = [], None

    def _hold(self, found: AbstractMap) -> None:
        self.forget()
        if self.held and isinstance(self.held[-1], FusedMap):
            self.held[-1].values = None  # only the last attention's are asked for
        self.held = [found] if self.only_last else [*self.held, found]

    def with_gradient(self, gradient: Tensor, examples: int) -> None:
        """The gradient of the last attention."""
        last = self.held[-1]
        if isinstance(last, FusedMap):
            self.held[-1] = replace(last, out_gradient=gradient)
        elif isinstance(last, WrittenMap):
            self.held[-1] = replace(last, gradient=as_heads(gradient, examples, self.end_layout))


def _not_shown(made: AttentionMap, found: AbstractMap) -> None:
    """Nothing is shown while looking."""


class _Dropping:
    """What autograd saves, until it is told to forget."""

    def __init__(self) -> None:
        self.values: dict[int, Tensor] = {}
        self.count = 0

    def pack(self, t: Tensor) -> int:
        self.values[self.count] = t
        self.count += 1
        return self.count - 1

    def unpack(self, n: int) -> Tensor:
        return self.values[n]


def stream(
    forward: Forward, batch: Batch, *, target: Callable[[Any], Tensor], visitor: Visitor, states: bool = False
) -> Streamed:
    """Run a model there and back, and show every attention with its gradient. `states`: also what was attended to."""
    recorder = _Showing(batch, visitor, states=states)
    mode = _mode(recorder, batch)
    with closing(recorder), closing(mode), intercepted(mode):
        scores, outputs = run(mode, forward, target)
        recorder.arrange(mode.leaves)
        if scores.requires_grad and recorder.maps:
            backward(scores, [leaf.tensor for leaf in mode.leaves], reentrant=mode.recomputes)
        return Streamed(recorder.maps, [], recorder.activations, outputs, scores.detach(), recorder.in_parts)


def look(forward: Forward, batch: Batch, *, target: Callable[[Any], Tensor], only_last: bool = False) -> Streamed:
    """Run a model forward, and hold its attentions: all, or the last alone. The last one's gradient is known."""
    dropping = _Dropping()
    recorder = _Looking(batch, dropping.values.clear, only_last=only_last)
    mode = _mode(recorder, batch)
    with closing(recorder), closing(mode), intercepted(mode), planned("keep"):
        with saved_tensors_hooks(dropping.pack, dropping.unpack):
            scores, outputs = run(mode, forward, target)
        recorder.arrange(mode.leaves)
        if scores.requires_grad and recorder.end is not None:
            (gradient,) = backward(scores, [recorder.end])
            if gradient is not None:
                recorder.with_gradient(gradient, batch.examples)
        return Streamed(recorder.maps, recorder.held, {}, outputs, scores.detach(), recorder.in_parts)


def _mode(recorder: Recorder, batch: Batch) -> Interception:
    recipe = recipes["gi"]
    return Interception(batch, recorder.rules(table(recipe)), recipe=recipe, follows=("examples",))
