"""Attention as it happens: maps, their gradients and their relevance, from fused and eager attention alike.

A softmax whose result multiplies values is attention; nothing is asked of the model, no `output_attentions`, no eager
switch. Fused attention is spelled out while it is captured here, and all maps are held; `streaming` holds none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from whence.core.backward import on_gradient
from whence.core.batch import Batch
from whence.core.call import Call, Rule, is_tainted, role_of
from whence.core.interception import Interception, Leaf, as_it_is
from whence.core.layout import Lane, Layout, examples_first, layout_of
from whence.core.memory import planned, room_on
from whence.core.propagation import Forward, backward, intercepted, run
from whence.core.recipe import recipes
from whence.core.relevance import CHEFER, relevance_table, spelled_out, universal
from whence.core.rules import products, softmax, table
from whence.errors import ModelError

__all__ = ["AttentionMap", "Captured", "Recorder", "as_heads", "capture", "capture_relevance", "mixes_elsewhere"]


OF_RELEVANCE = 6
"""Tensors of the size of a map that the relevance currency holds of each: scores, probabilities, their steps, sums."""


@dataclass
class AttentionMap:
    """One attention of the forward pass."""

    number: int
    probabilities: Tensor | None
    """(batch, head, query, key); None where the map is not held."""
    heads: int = 0
    level: int = 0
    """Attentions side by side have the same: neither reads what the other gave (two streams, a difference of two)."""
    stream: str = "self"
    """"self", or in encoder-decoders "encoder", "decoder", "cross"."""
    heads_beside: int = 0
    """Heads of all attentions of its level, its own included."""
    gradient: Tensor | None = None
    states: Tensor | None = None
    """What was attended to: the input of the value projection (batch, token, hidden)."""
    states_gradient: Tensor | None = None
    nodes: tuple[Any, Any, Any] = (None, None, None)
    """Of the graph: what made the probabilities (or queries), the values, and the result."""


@dataclass
class Captured:
    """All maps of a forward pass, first layer first."""

    maps: list[AttentionMap]
    outputs: Any
    target: Tensor
    leaves: list[Leaf]
    in_parts: int = 0
    """How many attentions were over windows or chunks of the sequence, and so are not among the maps."""


def as_heads(p: Tensor, examples: int, layout: Layout | None) -> Tensor | None:
    """(batch, head, query, key), or None where the map is over windows or chunks of the sequence."""
    if p.dim() not in (3, 4):
        return None
    axis = layout[0] if layout else None
    if examples == 1:
        return p.reshape(1, -1, *p.shape[-2:]) if p.dim() == 3 or p.shape[0] == 1 else None
    if axis is None or axis.axis >= p.dim() - 2:
        return None
    if p.dim() == 4 and p.shape[axis.axis] != examples:
        return None  # windows are folded into the batch, and heads have an axis of their own
    return examples_first(p, axis, kept=2)


class Recorder:
    """The rules that capture, and what they captured."""

    def __init__(self, batch: Batch, maps_held: int = 0):
        self.maps_held = maps_held
        """How many maps of a layer will be held in the end, all layers together: said before the first is written."""
        self.examples = batch.examples
        self.tokens = batch.inputs[batch.names[0]].shape[1:2].numel()
        self.maps: list[AttentionMap] = []
        self.states: Tensor | None = None
        """What went into the last projection."""
        self.by_token: Tensor | None = None
        """The same for the last projection of every token."""
        self.in_parts = 0
        self.last: tuple[Tensor, Layout | None] | None = None

    def close(self) -> None:
        """Let go of the graph. Its nodes hold our hooks, and C++ does not see that circle: it would never be freed."""
        self.states = self.by_token = self.last = None
        for m in self.maps:
            m.nodes = (None, None, None)

    def arrange(self, leaves: Sequence[Leaf]) -> None:
        """Say which maps are of which stream, and which stand side by side."""
        _name_streams(self.maps, leaves)
        _set_levels(self.maps)

    def rules(self, base: Mapping[str, Rule]) -> dict[str, Rule]:
        own = dict.fromkeys(products.MATRIX, self.matrix) | {"scaled_dot_product_attention": self.fused}
        own |= {"linear": self.linear, "addmm": self.linear}
        self.base = base
        return {**base, **own}

    def linear(self, call: Call) -> Any:
        """Remember what went into the last projection: before an attention, that is what is attended to."""
        x = call.argument(1, "mat1") if call.name == "addmm" else call.argument(0, "input")
        if is_tainted(x) and x.dim() in (2, 3):
            self.states = x
            if x.shape[:-1].numel() == self.examples * self.tokens:
                self.by_token = x
        return self.base[call.name](call)

    def matrix(self, call: Call) -> Any:
        """probabilities @ values, in any spelling."""
        tensors = call.tensors()
        probability = next((t for t in tensors if role_of(t) == "probability" and t.requires_grad), None)
        if len(tensors) != 2 or call.interception.in_backward:  # recomputed: it was seen in the forward pass
            return self.base[call.name](call)
        first, second = tensors
        made = None
        if probability is not None:
            values = second if first is probability else first
            heads = as_heads(probability, self.examples, layout_of(probability))
            if heads is not None:
                made = self.keep(probability, heads, values)
            elif probability.dim() > 3:
                self.in_parts += 1
        elif is_tainted(first) and not is_tainted(second) and second.dim() == 2 and first.dim() in (2, 3):
            self.states = first  # x @ W: a projection of its own spelling
        out = self.base[call.name](call)
        if made is not None:
            made.nodes = (*made.nodes[:2], out.grad_fn)
        return out

    def fused(self, call: Call) -> Any:
        a = softmax.bound_arguments(call)
        q, k, v = a["query"], a["key"], a["value"]
        if call.interception.in_backward or not (is_tainted(q) or is_tainted(k) or is_tainted(v)):
            return self.base["scaled_dot_product_attention"](call)
        if not self.is_whole(q if is_tainted(q) else v):
            self.in_parts += 1
            return self.base["scaled_dot_product_attention"](call)
        if not self.maps:
            check_room(self.maps_held, q, k)
        with call.interception:  # its softmax and its product come back to us
            probabilities, v = spelled_out(q, k, v, softmax.mask_arguments(a))
            return probabilities @ v

    def is_whole(self, x: Tensor) -> bool:
        """(batch, head, token, channel)."""
        layout = layout_of(x)
        axis = layout[0] if layout else None
        return (
            x.dim() == 4
            and x.shape[0] == self.examples
            and (self.examples == 1 or (axis is not None and axis.axis == 0))
        )

    def keep(self, probability: Tensor, heads: Tensor, values: Tensor) -> AttentionMap:
        made = AttentionMap(
            len(self.maps), heads.detach(), heads.shape[1], nodes=(probability.grad_fn, values.grad_fn, None)
        )
        self.maps.append(made)
        layout, examples = layout_of(probability), self.examples
        self.last = (probability, layout)

        def seen(grad: Tensor) -> None:
            made.gradient = as_heads(grad.detach(), examples, layout)
            self.seen(made)

        on_gradient(probability, seen)
        if self.states is not None:
            self.keep_states(made, self.states, heads.shape[-1])
        return made

    def seen(self, made: AttentionMap) -> None:
        """The gradient of a map is there."""

    def keep_states(self, made: AttentionMap, states: Tensor, tokens: int) -> None:
        """What was attended to, and its whole gradient: that of the attention and that of the path around it."""
        layout, examples = layout_of(states), self.examples
        made.states = _by_example(states.detach(), examples, tokens, layout)
        if made.states is None or states.grad_fn is None:
            return
        place = (states.shape, states.stride())
        base = states._base if states._is_view() else None
        whole = base is not None and base.numel() == states.numel() and base.is_contiguous()

        def seen(grad: Tensor) -> None:
            grad = grad.detach()
            own = grad.contiguous().as_strided(*place) if whole else grad
            made.states_gradient = _by_example(own, examples, tokens, layout)
            self.seen_states(made)

        # A view (transposed, flattened) is often made for the attention alone, and the path around it uses the base.
        on_gradient(base if whole and base is not None else states, seen)

    def seen_states(self, made: AttentionMap) -> None:
        """The gradient of what was attended to is there."""


def _by_example(states: Tensor, examples: int, tokens: int, layout: Layout | None) -> Tensor | None:
    """(batch, token, hidden)."""
    axis: Lane | None = layout[0] if layout else None
    if states.shape[:-1].numel() != examples * tokens or (examples > 1 and axis is None):
        return None
    return states.reshape(1, tokens, -1) if axis is None else examples_first(states, axis)


def check_room(maps: int, q: Tensor, k: Tensor) -> None:
    """An error before memory ends, where so many maps will not fit."""
    wide = max(q.element_size(), 4) if q.device.type == "cpu" else q.element_size()
    needed, free = maps * q.shape[:-1].numel() * k.shape[-2] * wide, room_on(q.device)
    if free is not None and needed > free:
        raise ModelError(
            f"this method writes down every attention map, about {needed / 2**30:.1f} GiB for {k.shape[-2]:,} tokens, "
            f"and {free / 2**30:.1f} GiB are free. Shorten the input, explain fewer at a time (batch_tokens=…), or use "
            "a method that holds no maps: gae, rollout, lrp"
        )


def capture(
    forward: Forward,
    batch: Batch,
    *,
    target: Callable[[Any], Tensor],
    gradients: bool = True,
    wide: bool = False,
    layers: int = 0,
) -> Captured:
    """Run the model and collect its attention; with `gradients`, also ∂ target / ∂ map.

    The last map has its gradient in any case: it says which tokens the target is read from, and costs no more than
    the layers above that map. `wide` computes half precision in float32. `layers` says how many maps there will be,
    where that is known: if they will not fit, that is an error now.
    """
    recorder = Recorder(batch, layers * (2 if gradients else 1))
    rules = recorder.rules(table(recipes["gi"]))
    mode = Interception(batch, rules, recipe=recipes["gi"], follows=("examples",), wide=wide)
    with closing(recorder), closing(mode), intercepted(mode), planned("keep"):  # what is recorded is there once
        scores, outputs = run(mode, forward, target)
        recorder.arrange(mode.leaves)
        if scores.requires_grad and recorder.maps:
            if gradients:
                backward(scores, [leaf.tensor for leaf in mode.leaves], reentrant=mode.recomputes)
            elif recorder.last is not None:
                probability, layout = recorder.last
                (grad,) = backward(scores, [probability])
                recorder.maps[-1].gradient = None if grad is None else as_heads(grad, batch.examples, layout)
        leaves = mode.leaves
    return Captured(recorder.maps, outputs, scores.detach(), leaves, recorder.in_parts)


def capture_relevance(
    forward: Forward, batch: Batch, *, target: Callable[[Any], Tensor], wide: bool = True, layers: int = 0
) -> list[Tensor]:
    """The relevance R_A of every map under the rules of Chefer et al. 2021, one-hot at the target.

    A target of several terms begins with their weights. Relevance is no linear function of where it begins, and weights
    that cancel (one token rather than another) would leave nothing but rounding; so what speaks for the target and what
    speaks against it are two passes, and the second is taken from the first.
    """
    recorder = Recorder(batch, layers * OF_RELEVANCE)
    mode = Interception(
        batch, recorder.rules(relevance_table()), recipe=CHEFER, default=universal, follows=("examples",), wide=wide
    )
    with closing(recorder), closing(mode), torch.inference_mode(False), torch.enable_grad():
        with intercepted(mode), planned("keep"):
            outputs = forward(mode.prepared())
        read = _read_by(target, outputs)  # outside: the start of relevance is the ordinary gradient, one-hot
        leaves = [leaf.tensor for leaf in mode.leaves]
        total = [torch.zeros_like(m.probabilities) for m in recorder.maps]  # type: ignore[arg-type]
        for sign in (1.0, -1.0):
            for output, weights in read:
                start = (sign * weights).clamp(min=0)
                if not start.any():
                    continue
                backward(output, leaves, start=[start.to(output.dtype)], keep=True)
                for n, m in enumerate(recorder.maps):
                    total[n] += 0 if m.gradient is None else sign * m.gradient
                    m.gradient = None
    return total


def _read_by(target: Callable[[Any], Tensor], outputs: Any) -> list[tuple[Tensor, Tensor]]:
    """The outputs that a target reads, and its gradient by each."""
    parts, shape = tree_flatten(outputs)
    copies = [p.detach().requires_grad_() if is_tainted(p) else p for p in parts]
    scores = target(tree_unflatten(copies, shape))
    asked = [n for n, p in enumerate(parts) if is_tainted(p)]
    if not scores.requires_grad:
        return []
    found = torch.autograd.grad(scores.sum(), [copies[n] for n in asked], allow_unused=True)
    return [(parts[n], g) for n, g in zip(asked, found, strict=True) if g is not None]


# -- which attention reads which --------------------------------------------------------------------------------------


def _name_streams(maps: Sequence[AttentionMap], leaves: Sequence[Leaf]) -> None:
    """Tell encoder, decoder and cross-attention apart by what they were computed from.

    Where queries come from a leaf that values do not come from, two sequences meet. What is computed from the same
    leaves as the first map is the encoder.
    """
    if len(leaves) < 2 or not maps:
        return
    ends = {id(leaf.tensor): n for n, leaf in enumerate(leaves)}
    known: dict[Any, frozenset[int]] = {}
    of_query, of_values = ([_leaves_under(m.nodes[n], ends, known) for m in maps] for n in (0, 1))
    if not any(q - v for q, v in zip(of_query, of_values, strict=True)):
        return
    encoder = of_values[0]
    for m, query, values in zip(maps, of_query, of_values, strict=True):
        m.stream = "cross" if query - values else "encoder" if values <= encoder else "decoder"


def _leaves_under(node: Any, ends: dict[int, int], known: dict[Any, frozenset[int]]) -> frozenset[int]:
    """Numbers of the leaves that the graph under `node` ends in."""
    todo = [node]
    while todo:
        here = todo[-1]
        if here is None or here in known:
            todo.pop()
            continue
        parents = [p for p, _ in here.next_functions if p is not None]
        missing = [p for p in parents if p not in known]
        if missing:
            todo.extend(missing)
            continue
        own = ends.get(id(getattr(here, "variable", None)))
        known[here] = frozenset({own} if own is not None else ()).union(*(known[p] for p in parents))
        todo.pop()
    return known.get(node, frozenset())


def _set_levels(maps: Sequence[AttentionMap]) -> None:
    """Maps that do not read what the one before them gave stand beside it."""
    group: dict[str, list[AttentionMap]] = {}
    for m in maps:
        beside = group.setdefault(m.stream, [])
        results = {other.nodes[2] for other in beside}
        if beside and not _depends(m, results):
            m.level = beside[0].level
            beside.append(m)
        else:
            m.level = beside[0].level + 1 if beside else 0
            group[m.stream] = [m]
    for m in maps:
        m.heads_beside = sum(other.heads for other in maps if (other.stream, other.level) == (m.stream, m.level))
        m.nodes = (None, None, None)  # the graph must not outlive the pass


def _depends(m: AttentionMap, results: set[Any]) -> bool:
    seen, todo = set(), list(m.nodes[:2])
    while todo:
        here = todo.pop()
        if here is None or here in seen:
            continue
        if here in results:
            return True
        seen.add(here)
        todo.extend(parent for parent, _ in here.next_functions)
    return False


def mixes_elsewhere(forward: Forward, batch: Batch) -> bool | None:
    """Whether tokens of this model meet outside attention (convolution, recurrence, a state).

    Attention is cut: what its layers give is a constant. Then the last state of a token, what its last projection
    reads, may depend on that token alone. Inputs of one or two tokens can't tell: None.
    """
    recorder = Recorder(batch)
    cut = {name: _cut(rule) for name, rule in recorder.rules(table(recipes["gi"])).items()}
    mode = Interception(batch, cut, recipe=recipes["gi"], default=as_it_is, follows=("examples",))
    with closing(recorder), closing(mode), intercepted(mode), planned("keep"):
        forward(mode.prepared())
        mode.in_backward = True
        states = recorder.by_token if recorder.maps else None
        leaf = next((leaf for leaf in mode.leaves if leaf.positions is not None), None)
        if states is None or leaf is None or not states.requires_grad:
            return False
        tokens = batch.inputs[leaf.source].shape[1]
        rows = _by_example(states, batch.examples, tokens, layout_of(states))
        if rows is None:
            return False
        if tokens < 3:
            return None
        here = tokens // 2
        weights = torch.linspace(1, 2, rows.shape[-1], dtype=rows.dtype, device=rows.device)
        (grad,) = backward((rows[:, here] * weights).sum().reshape(1), [leaf.tensor])
        if grad is None:
            return False
        by_token = torch.zeros(batch.inputs[leaf.source].numel() + 1, dtype=grad.dtype, device=grad.device)
        positions = leaf.positions
        assert positions is not None
        places = torch.where(positions >= 0, positions, by_token.numel() - 1).reshape(-1)
        by_token.index_add_(0, places, grad.abs().sum(-1).reshape(-1))
        sizes = by_token[:-1].view(batch.inputs[leaf.source].shape)
        others = torch.arange(tokens, device=sizes.device) != here
        return bool(sizes[:, others].sum() > 1e-6 * sizes[:, here].sum())


def _cut(rule: Rule) -> Rule:
    def cut(call: Call) -> Any:
        is_attention = call.name == "scaled_dot_product_attention" or (
            call.name in products.MATRIX and any(role_of(t) == "probability" for t in call.tensors())
        )
        out = rule(call)
        return out.detach() if is_attention and isinstance(out, Tensor) else out

    cut.in_place_is_fine = getattr(rule, "in_place_is_fine", False)  # type: ignore[attr-defined]
    return cut
