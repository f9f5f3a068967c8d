"""The other currency: a backward pass that carries relevance itself instead of gradients.

Gradient recipes multiply by the input once, at the end. Relevance recipes (Chefer et al. 2021) need the relevance of
tensors in the middle, normalise it at every residual connection, and so carry R through each function:

    universal      R_in = x ⊙ Jᵀ (R_out / y)                          any function [Chefer 2021, eq. 1]
    linear         α1β0 on signed parts: x⁺w⁺ + x⁻w⁻, bias ignored    [eq. 3]
    x + y          universal, then rescaled per example so that both keep their sign and share |ΣR| [eq. 7–9]
    A @ B, x · y   universal, half to each side
    x / y          all to x: y is a size
    x - max(x)     all to x, and so for x - mean(x): norms and softmax pass relevance on as it is
    softmax, norms, activations, scaling by a constant: identity
    moves          relevance goes where values go

A recipe is a plain table from function name to rule, as in the gradient currency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from whence.core.call import Call, Rule, is_tainted, mark_role, role_of
from whence.core.holding import Holding
from whence.core.layout import CannotSplit, Lane, spread, summed
from whence.core.numerics import divide, stabilise
from whence.core.recipe import Recipe
from whence.core.rules import activations, linear, norms, packed_layers, products, softmax, structure

__all__ = ["CHEFER", "relevance_table", "spelled_out", "universal"]

CHEFER = Recipe("chefer", softmax="detach", norm="detach", source="Chefer et al. 2021, Transformer Attribution")
"""Stands for the table below where a recipe is asked for; deviations are constants."""

SUMS = frozenset(
    "sum mean nansum nanmean cumsum fold avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d interpolate upsample trace diff index_add scatter_add scatter_reduce lerp".split()
)
SELF_ACTIVATIONS = frozenset("relu leaky_relu prelu rrelu abs neg".split())
CASTS = frozenset("to type type_as half bfloat16".split())


class _Run:
    """A function as it ran: its graph, and the values of its inputs and output."""

    def __init__(self, run: Callable[..., Tensor], inputs: Sequence[Tensor], held: Holding):
        with torch.enable_grad():
            self.inputs = [x.detach().requires_grad_() for x in inputs]
            self.output = run(*self.inputs)
        self._held = [held.hold(x) for x in (*self.inputs, self.output)]

    @property
    def values(self) -> list[Tensor]:
        """The inputs as they were, whatever the model wrote into them since."""
        return [held.value for held in self._held[:-1]]

    @property
    def value(self) -> Tensor:
        return self._held[-1].value


Back = Callable[[_Run, Tensor], list[Tensor]]
"""A function and its output's relevance to its inputs' relevance."""


class _Carry(torch.autograd.Function):
    """Run a function of some tensors; send relevance back through `back(run, R)`."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Tensor], back: Back, held: Holding, *inputs: Tensor) -> Tensor:
        ran = _Run(run, inputs, held)
        ctx.back, ctx.ran = back, ran
        return ran.output.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Any, ...]:
        return (None, None, None, *ctx.back(ctx.ran, relevance))


def _apply(call: Call, run: Callable[..., Tensor], back: Back, *inputs: Tensor) -> Tensor:
    made: Tensor = _Carry.apply(run, back, call.interception.ledger.held, *inputs)  # type: ignore[no-untyped-call]
    return made


def _universal(share: float = 1.0) -> Back:
    """x ⊙ Jᵀ (R / y), times `share`."""

    def back(ran: _Run, relevance: Tensor) -> list[Tensor]:
        with torch.enable_grad():
            grads = torch.autograd.grad(
                ran.output, ran.inputs, divide(relevance, ran.value, 1e-9), allow_unused=True, retain_graph=True
            )
        return [torch.zeros_like(x) if g is None else x * g * share for x, g in zip(ran.values, grads, strict=True)]

    return back


def _same(ran: _Run, relevance: Tensor) -> list[Tensor]:
    """Relevance as it is, summed where the input was broadcast."""
    return [relevance.sum_to_size(x.shape) if x.shape != relevance.shape else relevance for x in ran.inputs]


class _Rescaled:
    """Share R between two summands, then let each keep |ΣR| of its part: sums stay, explosions don't.

    Per example. The authors' public code sums over the batch here, so it is right for batches of one only.
    """

    def __init__(self) -> None:
        self.axis: Lane | None = None
        """Where the examples lie in the sum; None for a single one."""

    def __call__(self, ran: _Run, relevance: Tensor) -> list[Tensor]:
        parts = _universal()(ran, relevance)
        if len(parts) != 2:  # x + x
            return parts
        total = self._sum(relevance)
        sums = [self._sum(p) for p in parts]
        sizes = [s.abs() for s in sums]
        whole = stabilise(sizes[0] + sizes[1])
        return [p * divide(size / whole * total, s) for p, s, size in zip(parts, sums, sizes, strict=True)]

    def _sum(self, x: Tensor) -> Tensor:
        """Sum over everything of each example, at every element of it."""
        return x.sum() if self.axis is None else spread(summed(x, [self.axis]), x, self.axis)


def carried(call: Call, back: Back) -> Any:
    """The call, with `back` in place of its backward. Arguments that are not tainted stay as they are."""
    tainted = list({id(t): t for t in call.tainted()}.values())
    if not tainted:
        return call.run()
    return _apply(call, lambda *fresh: call.with_inputs(tainted, fresh).run(), back, *tainted)


def universal(call: Call) -> Any:
    return carried(call, _universal(1 / max(1, len({id(t) for t in call.tainted()}))))


def identity(call: Call) -> Any:
    """Elementwise functions of one tensor: each element keeps its relevance."""
    return carried(call, _same)


def summed_up(call: Call) -> Any:
    """Sums and means: what was added shares the relevance as it shares the value."""
    out = carried(call, _universal())
    return _centre(call, out) if call.name == "mean" else out


def largest(call: Call) -> Any:
    """The relevance of a maximum goes to where it was found."""
    out = structure.linear(call)
    return out if isinstance(out, Tensor) and out.dim() == 0 else _centre(call, out)


def _centre(call: Call, out: Any) -> Any:
    structure.mark_mean(out if isinstance(out, Tensor) else out[0], call.argument(0, "input"))
    return out


def add(call: Call) -> Any:
    if len(call.tainted()) != 2:
        return identity(call)
    first, second = call.argument(0, "input"), call.argument(1, "other")
    if structure.is_centred(first, second):
        return identity(call.replaced(1, "other", second.detach()))
    share = _Rescaled()
    out = carried(call.with_inputs([first, second], torch.broadcast_tensors(first, second)), share)
    if call.interception.batch.examples > 1:
        layout = call.layout(out)
        share.axis = layout[0] if layout else None
        if share.axis is None:
            raise CannotSplit
    return out


def scale(call: Call) -> Any:
    """x · c is the identity; x · y is shared."""
    if len(call.tainted()) > 1:
        return universal(call)
    out = identity(call)
    mark_role(out, role_of(call.tainted()[0]))
    return out


def divide_by(call: Call) -> Any:
    """x / y: all of it to x. A sum or a size by which something is divided is a constant."""
    x, y = call.argument(0, "input"), call.argument(1, "other")
    if not is_tainted(x):
        return universal(call)
    out = identity(call.replaced(1, "other", y.detach()) if is_tainted(y) else call)
    mark_role(out, role_of(x))
    return out


def positive(call: Call) -> Any:
    """α1β0 on signed parts [eq. 3]: R_i = Σ_j (x_i w_ij)⁺ / Σ_i' (x_i' w_i'j)⁺ · R_j."""
    x, weight = call.argument(0, "input"), call.argument(1, "weight")
    if not is_tainted(x) or is_tainted(weight):
        return universal(call)
    return _apply(call, lambda x: call.replaced(0, "input", x).run(), _signed(_layer(call), weight), x)


def _layer(call: Call) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, weight: Tensor) -> Tensor:
        made: Tensor = call.replaced(0, "input", x).replaced(1, "weight", weight).replaced(2, "bias", None).run()
        return made

    return run


def _signed(run: Callable[[Tensor, Tensor], Tensor], weight: Tensor) -> Back:
    up, down = weight.clamp(min=0), weight.clamp(max=0)

    def back(ran: _Run, relevance: Tensor) -> list[Tensor]:
        (x,) = ran.values
        with torch.enable_grad():
            plus, minus = x.clamp(min=0).requires_grad_(), x.clamp(max=0).requires_grad_()
            z = run(plus, up) + run(minus, down)
            share = divide(relevance, z.detach(), 1e-9)
            g_plus, g_minus = torch.autograd.grad(z, (plus, minus), share)
        return [plus.detach() * g_plus + minus.detach() * g_minus]

    return back


def product(call: Call) -> Any:
    """Products of matrices: of two tainted factors half to each; with a weight, as a linear layer."""
    factors = [t for t in call.tensors() if t.is_floating_point()]
    tainted = call.tainted()
    if len(factors) != 2 or len(tainted) != 1:
        return universal(call)
    (x,) = tainted
    weight = factors[0] if factors[1] is x else factors[1]

    def run(x_: Tensor, weight_: Tensor) -> Tensor:
        made: Tensor = call.with_inputs([x, weight], [x_, weight_]).run()
        return made

    return _apply(call, lambda x: run(x, weight), _signed(run, weight), x)


def probabilities(call: Call) -> Any:
    out = identity(call)
    mark_role(out, "probability")
    return out


def cast(call: Call) -> Any:
    """A cast to half precision is not made: relevance that is divided and summed in it is noise."""
    x = call.args[0]
    out = call.run()
    narrowed = out.dtype in (torch.float16, torch.bfloat16) and out.device == x.device
    return x if call.interception.wide and narrowed else structure.linear(call)


def fused_attention(call: Call) -> Any:
    """Spelled out, so that the relevance of the probabilities exists."""
    a = softmax.bound_arguments(call)
    with call.interception:
        probabilities, v = spelled_out(a["query"], a["key"], a["value"], softmax.mask_arguments(a))
        return probabilities @ v


def spelled_out(q: Tensor, k: Tensor, v: Tensor, rest: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The probabilities of fused attention, and the values that they multiply."""
    scores, v = softmax.attention_scores(q, k, **rest), softmax.repeated(v, q, rest["enable_gqa"])
    if rest["attn_mask"] is None:
        return torch.softmax(scores, -1), v
    # A token that may attend to nothing (padding before the first) attends to nothing; softmax alone would give NaN.
    nothing = torch.isneginf(scores.detach()).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0), v


def relevance_table() -> dict[str, Rule]:
    """Canonical function name to relevance rule. The rest gets the universal rule."""
    recipe = CHEFER
    moves = {name: rule for name, rule in structure.rules(recipe).items() if name not in SUMS | SELF_ACTIVATIONS}
    return {
        **moves,
        **dict.fromkeys(CASTS, cast),
        **dict.fromkeys(SUMS, summed_up),
        **dict.fromkeys(("max", "min", "amax", "amin"), largest),
        **dict.fromkeys(SELF_ACTIVATIONS, identity),
        **dict.fromkeys(activations.ACTIVATIONS, identity),
        **dict.fromkeys(activations.DEVIATIONS, activations.constant),
        **dict.fromkeys(
            ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "pow", "log"), identity
        ),
        "normalize": norms.normalize,
        **dict.fromkeys(("add", "sub", "rsub"), add),
        "mul": scale,
        "div": divide_by,
        **dict.fromkeys(("linear", *linear.CONVOLUTIONS), positive),
        **dict.fromkeys(packed_layers.rules(recipe), packed_layers.spelled_out),
        **dict.fromkeys((*products.MATRIX, *products.GROUPED), product),
        **dict.fromkeys(products.WITH_SUM, products.spelled_sum),
        "softmax": probabilities,
        "scaled_dot_product_attention": fused_attention,
        "multi_head_attention_forward": softmax.multi_head_attention,
        "glu": activations.glu,
    }
