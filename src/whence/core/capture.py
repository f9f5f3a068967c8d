"""Attention as it happens: maps, their gradients and their relevance, from fused and eager attention alike.

A softmax whose result multiplies values is attention; nothing is asked of the model, no `output_attentions`, no eager
switch. Fused attention is spelled out only while it is captured. With a `visitor`, fused attention stays fused in the
forward pass: each map is computed again in the backward pass, shown to the visitor together with its gradient, and
dropped, so that memory does not grow with the number of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.core.backward import on_gradient
from whence.core.call import Call, Rule, is_tainted, role_of
from whence.core.interception import Interception, Leaf
from whence.core.propagation import backward
from whence.core.recipe import recipes
from whence.core.relevance import CHEFER, relevance_table, spelled_out, universal
from whence.core.rules import products, softmax, table
from whence.core.trail import trace

__all__ = ["AttentionMap", "Captured", "Visitor", "capture", "capture_relevance"]

Visitor = Callable[[int, Tensor, Tensor], None]
"""Called with a layer's number, its map (batch, head, query, key) and the gradient of the score by it."""


@dataclass
class AttentionMap:
    """One attention of the forward pass."""

    number: int
    probabilities: Tensor | None
    """(batch, head, query, key); None when the map was streamed."""
    stream: str = "self"
    """"self", or in encoder-decoders "encoder", "decoder", "cross"."""
    gradient: Tensor | None = None
    states: Tensor | None = None
    """What was attended to: the input of the value projection (batch, token, hidden)."""
    states_gradient: Tensor | None = None
    nodes: tuple[Any, Any] = (None, None)


@dataclass
class Captured:
    """All maps of a forward pass, first layer first."""

    maps: list[AttentionMap]
    outputs: Any
    target: Tensor
    leaves: list[Leaf]
    in_parts: int = 0
    """How many attentions were over windows or chunks of the sequence, and so are not among the maps."""


class _Recorder:
    """The rules that capture, and what they captured."""

    def __init__(self, examples: int, visitor: Visitor | None = None):
        self.examples = examples
        self.visitor = visitor
        self.maps: list[AttentionMap] = []
        self.states: Tensor | None = None
        self.tokens_first = False
        self.in_parts = 0
        self.last: Tensor | None = None

    def close(self) -> None:
        """Let go of the graph. Its nodes hold our hooks, and C++ does not see that circle: it would never be freed."""
        self.states = self.last = None
        for m in self.maps:
            m.nodes = (None, None)

    def rules(self, base: Mapping[str, Rule]) -> dict[str, Rule]:
        own = dict.fromkeys(products.MATRIX, self.matrix) | {"scaled_dot_product_attention": self.fused}
        own |= {"linear": self.linear, "addmm": self.linear, "multi_head_attention_forward": self.multi_head}
        self.base = base
        return {**base, **own}

    def linear(self, call: Call) -> Any:
        """Remember what went into the last projection: before an attention, that is what is attended to."""
        x = call.argument(1, "mat1") if call.name == "addmm" else call.argument(0, "input")
        if is_tainted(x) and x.dim() in (2, 3):
            self.states = x
        return self.base[call.name](call)

    def multi_head(self, call: Call) -> Any:
        """Torch's own attention function takes (token, batch, hidden)."""
        self.tokens_first = True
        try:
            return self.base[call.name](call)
        finally:
            self.tokens_first = False

    def matrix(self, call: Call) -> Any:
        """probabilities @ values, in any spelling."""
        tensors = call.tensors()
        probability = next((t for t in tensors if role_of(t) == "probability" and t.requires_grad), None)
        out = self.base[call.name](call)
        if len(tensors) != 2 or call.interception.in_backward:  # recomputed: it was seen in the forward pass
            return out
        first, second = tensors
        if probability is not None:
            values = second if first is probability else first
            heads = _as_heads(probability, self.examples)
            if heads is not None:
                self._keep(probability, heads, values)
            elif probability.dim() > 3:
                self.in_parts += 1
        elif is_tainted(first) and not is_tainted(second) and second.dim() == 2 and first.dim() in (2, 3):
            self.states = first  # x @ W: a projection of its own spelling
        return out

    def fused(self, call: Call) -> Any:
        a = softmax.bound_arguments(call)
        q, k, v = a["query"], a["key"], a["value"]
        if call.interception.in_backward or not (is_tainted(q) or is_tainted(k) or is_tainted(v)):
            return self.base["scaled_dot_product_attention"](call)
        if q.dim() != 4 or q.shape[0] != self.examples:
            self.in_parts += 1
            return self.base["scaled_dot_product_attention"](call)
        rest = softmax.mask_arguments(a)
        if self.visitor is not None:
            made = AttentionMap(len(self.maps), None, nodes=(q.grad_fn, v.grad_fn))
            self.maps.append(made)
            return _Streamed.apply(q, k, v, rest, made.number, self.visitor)
        with call.interception:  # its softmax and its product come back to us
            probabilities, v = spelled_out(q, k, v, rest)
            return probabilities @ v

    def _keep(self, probability: Tensor, heads: Tensor, values: Tensor) -> None:
        made = AttentionMap(
            len(self.maps),
            heads.detach(),
            nodes=(probability.grad_fn, values.grad_fn),
        )
        self.maps.append(made)
        self.last = probability
        shape = heads.shape

        def seen(grad: Tensor) -> None:
            made.gradient = grad.detach().reshape(shape)
            if self.visitor is not None:
                assert made.probabilities is not None
                self.visitor(made.number, made.probabilities, made.gradient)
                made.probabilities = made.gradient = None

        on_gradient(probability, seen)
        if self.visitor is None and self.states is not None:
            self._keep_states(made, self.states, shape[-1])

    def _keep_states(self, made: AttentionMap, states: Tensor, tokens: int) -> None:
        """What was attended to, and its whole gradient: that of the attention and that of the path around it."""
        tokens_first, examples = self.tokens_first, self.examples
        made.states = _batched(states.detach(), examples, tokens, tokens_first)
        if made.states is None or states.grad_fn is None:
            return
        place = (states.shape, states.stride())
        base = states._base if states._is_view() else None
        whole = base is not None and base.numel() == states.numel() and base.is_contiguous()

        def seen(grad: Tensor) -> None:
            grad = grad.detach()
            own = grad.contiguous().as_strided(*place) if whole else grad
            made.states_gradient = _batched(own, examples, tokens, tokens_first)

        # A view (transposed, flattened) is often made for the attention alone, and the path around it uses the base.
        on_gradient(base if whole else states, seen)  # type: ignore[arg-type]


def _batched(states: Tensor, examples: int, tokens: int, tokens_first: bool) -> Tensor | None:
    """(batch, token, hidden), from that, from (token, batch, hidden), or from either with its first axes as one."""
    if states.shape[:-1].numel() != examples * tokens:
        return None
    if states.dim() == 3 and states.shape[:2] not in ((examples, tokens), (tokens, examples)):
        return None
    first = states.shape[0] == tokens != examples if states.dim() == 3 else False
    if tokens_first or first:
        return states.reshape(tokens, examples, -1).transpose(0, 1)
    return states.reshape(examples, tokens, -1)


def _as_heads(p: Tensor, examples: int) -> Tensor | None:
    """(batch, head, query, key), or None where the map is over windows or chunks of the sequence."""
    if p.dim() == 4 and p.shape[0] == examples:
        return p
    if p.dim() == 3 and p.shape[0] % examples == 0:
        return p.reshape(examples, -1, *p.shape[1:])
    return None


class _Streamed(torch.autograd.Function):
    """Fused attention whose map exists only inside its own backward."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, rest: dict[str, Any], number: int, visitor: Visitor
    ) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.rest, ctx.number, ctx.visitor = rest, number, visitor
        return F.scaled_dot_product_attention(q, k, v, **rest)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        with torch.enable_grad(), torch._C.DisableTorchFunction():
            q, k, v = (x.detach().requires_grad_() for x in ctx.saved_tensors)
            probabilities, values = spelled_out(q, k, v, ctx.rest)
            kept = probabilities.detach().requires_grad_()
            by_map, by_values = torch.autograd.grad(kept @ values, (kept, values), grad, retain_graph=True)
            ctx.visitor(ctx.number, kept.detach(), by_map)
            grads = torch.autograd.grad((probabilities, values), (q, k, v), (by_map, by_values))
        return (*grads, None, None, None)


def capture(
    forward: Callable[[dict[str, Any]], Any],
    inputs: Mapping[str, Any],
    *,
    sources: tuple[str, ...],
    target: Callable[[Any], Tensor],
    gradients: bool = True,
    visitor: Visitor | None = None,
    encoder_decoder: bool = False,
) -> Captured:
    """Run the model and collect its attention; with `gradients`, also ∂ target / ∂ map.

    The last map has its gradient in any case: it says which tokens the target is read from, and costs no more than
    the layers above that map.
    """
    recorder = _Recorder(inputs[sources[0]].shape[0], visitor)
    mode = Interception(recipes["gi"], recorder.rules(table(recipes["gi"])))
    with closing(recorder), closing(mode), torch.enable_grad(), mode:
        outputs = forward(_prepared(mode, inputs, sources))
        scores = target(outputs)
        _name_streams(recorder.maps, mode.leaves, encoder_decoder)
        if scores.requires_grad and recorder.maps:
            mode.in_backward = True
            if gradients:
                backward(scores, [leaf.tensor for leaf in mode.leaves], reentrant=mode.recomputes)
            elif recorder.last is not None:
                (grad,) = backward(scores, [recorder.last])
                last = recorder.maps[-1]
                last.gradient = None if grad is None else grad.reshape(last.probabilities.shape)  # type: ignore[union-attr]
        leaves = mode.leaves
    return Captured(recorder.maps, outputs, scores.detach(), leaves, recorder.in_parts)


def capture_relevance(
    forward: Callable[[dict[str, Any]], Any],
    inputs: Mapping[str, Any],
    *,
    sources: tuple[str, ...],
    target: Callable[[Any], Tensor],
) -> list[Tensor]:
    """The relevance R_A of every map under the rules of Chefer et al. 2021, one-hot at the target."""
    examples = inputs[sources[0]].shape[0]
    recorder = _Recorder(examples)
    mode = Interception(CHEFER, recorder.rules(relevance_table(examples)), default=universal)
    with closing(recorder), closing(mode), torch.enable_grad():
        with mode:
            outputs = forward(_prepared(mode, inputs, sources))
        scores = target(outputs)  # outside: the start of relevance is the ordinary gradient, one-hot
        backward(scores, [leaf.tensor for leaf in mode.leaves])
    return [m.gradient if m.gradient is not None else torch.zeros_like(m.probabilities) for m in recorder.maps]  # type: ignore[arg-type]


def _prepared(mode: Interception, inputs: Mapping[str, Any], sources: tuple[str, ...]) -> dict[str, Any]:
    made = dict(inputs)
    for name in sources:
        value = inputs[name]
        made[name] = mode.leaf(name, value) if value.is_floating_point() else trace(name, value)
    return made


def _name_streams(maps: list[AttentionMap], leaves: list[Leaf], encoder_decoder: bool) -> None:
    """In an encoder-decoder, tell encoder, decoder and cross-attention apart by what they were computed from."""
    if encoder_decoder and len(leaves) > 1:  # with one, it is the encoder alone
        own = [leaf for leaf in leaves if leaf.source.startswith("decoder")]
        decoder = {id(leaf.tensor) for leaf in own or leaves[1:]}
        known: dict[Any, bool] = {}
        for m in maps:
            from_query, from_values = (_reaches(node, decoder, known) for node in m.nodes)
            m.stream = "decoder" if from_values else "cross" if from_query else "encoder"
    for m in maps:
        m.nodes = (None, None)  # the graph must not outlive the pass


def _reaches(node: Any, leaves: set[int], known: dict[Any, bool]) -> bool:
    """Whether the graph under `node` ends in one of `leaves`."""
    seen, todo = set(), [node]
    while todo:
        here = todo.pop()
        if here is None or here in seen:
            continue
        seen.add(here)
        if here in known:
            if known[here]:
                return True
            continue
        if id(getattr(here, "variable", None)) in leaves:
            known[node] = True
            return True
        todo.extend(parent for parent, _ in here.next_functions)
    known.update(dict.fromkeys(seen, False))
    return False
