"""The other currency: a backward pass that carries relevance itself instead of gradients.

Gradient recipes multiply by the input once, at the end. Relevance recipes (Chefer et al. 2021) need the relevance of
tensors in the middle, normalise it at every residual connection, and so carry R through each function:

    universal      R_in = x ⊙ Jᵀ (R_out / y)                          any function [Chefer 2021, eq. 1]
    linear         α1β0 on signed parts: x⁺w⁺ + x⁻w⁻, bias ignored    [eq. 3]
    x + y          universal, then rescaled per example so that both keep their sign and share |ΣR| [eq. 7–9]
    A @ B, x · y   universal, half to each side
    softmax, norms, activations, scaling by a constant: identity
    moves          relevance goes where values go

A recipe is a plain table from function name to rule, as in the gradient currency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from whence.core.call import Call, Rule, is_tainted, mark_role
from whence.core.layout import CannotSplit, Lane, spread, summed
from whence.core.numerics import divide, stabilise
from whence.core.recipe import Recipe
from whence.core.rules import activations, linear, norms, products, softmax, structure

__all__ = ["CHEFER", "relevance_table", "spelled_out", "universal"]

CHEFER = Recipe("chefer", softmax="detach", norm="detach", source="Chefer et al. 2021, Transformer Attribution")
"""Stands for the table below where a recipe is asked for; deviations are constants."""

SUMS = frozenset(
    "sum mean nansum nanmean cumsum fold avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d interpolate upsample trace diff".split()
)
SELF_ACTIVATIONS = frozenset("relu leaky_relu prelu rrelu abs neg".split())
CASTS = frozenset("to type type_as half bfloat16".split())

Back = Callable[[list[Tensor], Tensor, Tensor], list[Tensor]]
"""Inputs, output and the output's relevance to the inputs' relevance."""


class _Carry(torch.autograd.Function):
    """Run a function of some tensors; send relevance back through `back(inputs, output, R)`."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Tensor], back: Back, *inputs: Tensor) -> Tensor:
        ctx.back = back
        with torch.enable_grad():
            ctx.inputs = [x.detach().requires_grad_() for x in inputs]
            ctx.output = run(*ctx.inputs)
        return ctx.output.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Any, ...]:
        parts = ctx.back(ctx.inputs, ctx.output, relevance)
        return (None, None, *parts)


def _apply(run: Callable[..., Tensor], back: Back, *inputs: Tensor) -> Tensor:
    made: Tensor = _Carry.apply(run, back, *inputs)  # type: ignore[no-untyped-call]
    return made


def _universal(share: float = 1.0) -> Back:
    """x ⊙ Jᵀ (R / y), times `share`."""

    def back(inputs: list[Tensor], output: Tensor, relevance: Tensor) -> list[Tensor]:
        with torch.enable_grad():
            grads = torch.autograd.grad(
                output, inputs, divide(relevance, output.detach(), 1e-9), allow_unused=True, retain_graph=True
            )
        return [
            torch.zeros_like(x) if g is None else (x.detach() * g * share) for x, g in zip(inputs, grads, strict=True)
        ]

    return back


def _same(inputs: list[Tensor], output: Tensor, relevance: Tensor) -> list[Tensor]:
    """Relevance as it is, summed where the input was broadcast."""
    return [relevance.sum_to_size(x.shape) if x.shape != relevance.shape else relevance for x in inputs]


class _Rescaled:
    """Share R between two summands, then let each keep |ΣR| of its part: sums stay, explosions don't.

    Per example. The authors' public code sums over the batch here, so it is right for batches of one only.
    """

    def __init__(self) -> None:
        self.axis: Lane | None = None
        """Where the examples lie in the sum; None for a single one."""

    def __call__(self, inputs: list[Tensor], output: Tensor, relevance: Tensor) -> list[Tensor]:
        parts = _universal()(inputs, output, relevance)
        if len(parts) != 2 or any(p.shape != relevance.shape for p in parts):
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
    return _apply(lambda *fresh: call.with_inputs(tainted, fresh).run(), back, *tainted)


def universal(call: Call) -> Any:
    return carried(call, _universal(1 / max(1, len({id(t) for t in call.tainted()}))))


def identity(call: Call) -> Any:
    """Elementwise functions of one tensor: each element keeps its relevance."""
    return carried(call, _same)


def add(call: Call) -> Any:
    if len(call.tainted()) != 2:
        return identity(call)
    share = _Rescaled()
    out = carried(call, share)
    if call.interception.batch.examples > 1:
        layout = call.layout(out)
        share.axis = layout[0] if layout else None
        if share.axis is None:
            raise CannotSplit
    return out


def scale(call: Call) -> Any:
    """x · c and x / c are the identity; x · y is shared."""
    return universal(call) if len(call.tainted()) > 1 else identity(call)


def positive(call: Call) -> Any:
    """α1β0 on signed parts [eq. 3]: R_i = Σ_j (x_i w_ij)⁺ / Σ_i' (x_i' w_i'j)⁺ · R_j."""
    x, weight = call.argument(0, "input"), call.argument(1, "weight")
    if not is_tainted(x) or is_tainted(weight):
        return universal(call)
    return _apply(lambda x: call.replaced(0, "input", x).run(), _signed(_layer(call), weight), x)


def _layer(call: Call) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, weight: Tensor) -> Tensor:
        made: Tensor = call.replaced(0, "input", x).replaced(1, "weight", weight).replaced(2, "bias", None).run()
        return made

    return run


def _signed(run: Callable[[Tensor, Tensor], Tensor], weight: Tensor) -> Back:
    up, down = weight.clamp(min=0), weight.clamp(max=0)

    def back(inputs: list[Tensor], output: Tensor, relevance: Tensor) -> list[Tensor]:
        (x,) = inputs
        with torch.enable_grad():
            plus, minus = x.detach().clamp(min=0).requires_grad_(), x.detach().clamp(max=0).requires_grad_()
            z = run(plus, up) + run(minus, down)
            share = divide(relevance, z.detach(), 1e-9)
            g_plus, g_minus = torch.autograd.grad(z, (plus, minus), share)
        return [plus.detach() * g_plus + minus.detach() * g_minus]

    return back


def product(call: Call) -> Any:
    """Matrix products: of two tainted factors half to each; with a weight, as a linear layer."""
    if len(call.tainted()) > 1 or len(call.args) != 2 or call.name not in ("matmul", "mm", "bmm"):
        return universal(call)
    a, b = call.args
    if is_tainted(a) and not is_tainted(b) and b.dim() == 2:
        return _apply(lambda x: call.func(x, b), _signed(torch.matmul, b), a)
    return universal(call)


def biased_product(call: Call) -> Any:
    """addmm(bias, x, W): a linear layer of its own spelling."""
    bias, x, weight = (call.argument(i, n) for i, n in enumerate(("input", "mat1", "mat2")))
    if call.name != "addmm" or not is_tainted(x) or is_tainted(weight) or is_tainted(bias):
        return universal(call)
    return _apply(lambda x: torch.addmm(bias, x, weight), _signed(torch.mm, weight), x)


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
    scores, v = softmax.attention_scores(q, k, v, **rest)
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
        **dict.fromkeys(SUMS, universal),
        **dict.fromkeys(SELF_ACTIVATIONS, identity),
        **dict.fromkeys(activations.ACTIVATIONS, identity),
        **dict.fromkeys(activations.DEVIATIONS, activations.constant),
        **dict.fromkeys(
            ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "pow", "log"), identity
        ),
        "normalize": norms.normalize,
        **dict.fromkeys(("add", "sub", "rsub"), add),
        **dict.fromkeys(("mul", "div"), scale),
        **dict.fromkeys(("linear", *linear.CONVOLUTIONS), positive),
        **dict.fromkeys(products.MATRIX, product),
        **dict.fromkeys(("addmm", "baddbmm", "addbmm"), biased_product),
        "softmax": probabilities,
        "scaled_dot_product_attention": fused_attention,
        "multi_head_attention_forward": softmax.multi_head_attention,
        "glu": activations.glu,
    }
