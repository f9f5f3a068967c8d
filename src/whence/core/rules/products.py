"""Products. Of one tainted factor they are linear; of two they are where recipes differ."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whence.core.backward import gated_product, on_gradient, scale_gradient
from whence.core.call import Call, Rule, gate_of, is_tainted, mark_origin, mark_role, origin_of, role_of, table_of
from whence.core.chains import shortened
from whence.core.recipe import Plain, Recipe
from whence.core.reweighing import reweighed

__all__ = ["rules", "shared"]

MATRIX = (
    "matmul",
    "mm",
    "bmm",
    "mv",
    "dot",
    "inner",
    "outer",
    "ger",
    "einsum",
    "tensordot",
    "chain_matmul",
    "kron",
    "linalg_multi_dot",
    "cross",
    "vdot",
    "vecdot",
    "linalg_vecdot",
)


def multiply(call: Call) -> Any:
    """x * y elementwise."""
    a, b = call.argument(0, "input"), call.argument(1, "other")
    if not (is_tainted(a) and is_tainted(b)):
        return shortened(call, _scaled(call.run(), *((a, b) if is_tainted(a) else (b, a))))
    recipe = call.recipe
    (origin_a, a_is_linear), (origin_b, b_is_linear) = origin_of(a, create=True), origin_of(b, create=True)
    if origin_a is origin_b:
        out = _self_gate(call, a, b, a_is_linear, b_is_linear)
        mark_origin(out, a, linear=False)
        mark_role(out, "gate")
        return out
    if "deviation" in (role_of(a), role_of(b)):
        return shared(call, 1.0, "norm")
    weight = probability_of(call)
    if weight is not None and recipe.softmax == "detach":  # experts weighed by their router
        return call.mapped(lambda t: t.detach() if t is weight else t).run()
    gates = [role_of(a) == "gate", role_of(b) == "gate"]
    if recipe.product == "detach" and sum(gates) == 1:
        gate = gates.index(True)
        return call.replaced(gate, ("input", "other")[gate], (a, b)[gate].detach()).run()
    share = 1.0 if recipe.product == "gradient" else 0.5
    gated, other = (a, b) if gates[0] else (b, a)
    known = gate_of(gated)
    if known is None or sum(gates) != 1 or a.shape != b.shape or a.dtype != b.dtype:
        return shared(call, share, "product")
    out = gated_product(known.x, other, gated, known.gradients, share)
    if share != 0.5:
        call.book("product", out, out.detach() * (1 - 2 * share))
    return out


def _scaled(out: Tensor, x: Tensor, factor: Any) -> Tensor:
    """`out`, which is x times or over a constant, marked as what x is."""
    if not isinstance(factor, Tensor) or factor.dim() == 0:
        mark_origin(out, x, linear=True)
    mark_role(out, role_of(x))
    return out


def _self_gate(call: Call, a: Tensor, b: Tensor, a_is_linear: bool, b_is_linear: bool) -> Any:
    """x · h(x) spelled out (tanh-GELU, x·sigmoid(x), ReLU²): an activation, not a product of two things."""
    if call.recipe.activation == "gradient":
        return shared(call, 1.0, "activation")
    if not a_is_linear and not b_is_linear:
        return shared(call, 0.5, "activation")
    gate = 1 if a_is_linear else 0
    gated = (a, b)[gate].detach()
    return call.replaced(gate, ("input", "other")[gate], gated).run()


def shared(call: Call, share: float, kind: str) -> Any:
    """Run a product of two tainted factors, each of which gets `share` of its gradient."""
    out = call.run()
    if share != 0.5:  # each factor would hand on the whole relevance of the product
        call.book(kind, out, out.detach() * (1 - 2 * share))
    if share != 1 and out.requires_grad:
        on_gradient(out, lambda grad: grad * share)
    return out


def divide(call: Call) -> Any:
    """x / y: linear in x; y is a deviation."""
    x, y = call.argument(0, "input"), call.argument(1, "other")
    if call.name == "rdiv":
        x, y = y, x
    if call.kwargs.get("rounding_mode") is not None:
        return call.run().detach()  # steps: a constant, booked where it joins
    if not is_tainted(y):
        return _scaled(call.run(), x, y)
    if call.recipe.norm == "gradient":
        out = call.measured("norm")
        mark_role(out, "deviation" if not is_tainted(x) else role_of(x))
        return out
    position = 0 if call.name == "rdiv" else 1
    out = call.replaced(position, "other", y.detach()).run()
    mark_role(out, role_of(x))
    return out


def matrix(call: Call) -> Any:
    """Matrix products of any spelling. One with probabilities is attention: the recipe's softmax says what P is."""
    weight = probability_of(call)
    if weight is not None and call.recipe.softmax == "detach":
        return _with_constant_map(call, weight)
    tainted = call.tainted()
    if len(tainted) > 1:
        return _bilinear(call, tainted, weight)
    return call.run() if isinstance(call.recipe.linear, Plain) else _with_weight(call)


def _with_weight(call: Call) -> Any:
    """x @ W with a parameter W is a linear layer in another spelling."""
    found = _weight_among([t for t in call.tensors() if t.is_floating_point()])
    if found is None:
        return call.run()

    def layer(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        made: Tensor = call.with_inputs(found, [x, weight]).run()
        return made

    return reweighed(call, call.recipe.linear, layer, *found, None)


def _weight_among(factors: list[Tensor]) -> tuple[Tensor, Tensor] | None:
    """Of two factors, what carries relevance and what is a parameter; None where they are something else."""
    tainted = [t for t in factors if t.requires_grad]
    weights = [t for t in factors if not t.requires_grad and table_of(t) is not None]
    return (tainted[0], weights[0]) if len(factors) == 2 and len(tainted) == len(weights) == 1 else None


def probability_of(call: Call) -> Tensor | None:
    """The factor that is a softmax, if there is one. What the caller computes from the outputs is no attention."""
    if call.interception.in_target:
        return None
    return next((t for t in call.tensors() if role_of(t) == "probability"), None)


def _with_constant_map(call: Call, weight: Tensor) -> Any:
    """[P] @ v: linear in the values, which get their share."""
    values = call.recipe.values
    if values == 1:
        return call.mapped(lambda t: t.detach() if t is weight else t).run()
    out = call.mapped(lambda t: t.detach() if t is weight else scale_gradient(t, values)).run()
    call.book("softmax", out, out.detach() * (1 - values))
    return out


def _bilinear(call: Call, tainted: list[Tensor], probability: Tensor | None) -> Any:
    recipe = call.recipe
    share = 1.0 if recipe.product == "gradient" else 0.5
    if probability is None or len(tainted) != 2:
        if len(tainted) > 2 and share != 1:
            share = 1 / len(tainted)
        out = call.run()
        amount = 1 - len(tainted) * share
        if amount:
            call.book("product", out, out.detach() * amount)
        if share != 1:
            on_gradient(out, lambda grad: grad * share)
        return out
    # P @ v. The scores q k get `share` of P's gradient each later on, and `scores` is what they should get.
    through_p = recipe.scores / share

    def scaled(t: Tensor) -> Tensor:
        if t is probability:
            return scale_gradient(t, through_p)
        return scale_gradient(t, recipe.values) if t.requires_grad else t

    out = call.mapped(scaled).run()
    call.book("softmax", out, out.detach() * (1 - through_p - recipe.values))
    return out


def bilinear(call: Call) -> Any:
    """x₁ᵀ W x₂ + b."""
    bias = call.argument(3, "bias")
    out = matrix(call.replaced(3, "bias", None))
    if bias is None:
        return out
    out = out + bias
    call.book("bias", out, bias)
    return out


def matrix_with_sum(call: Call) -> Any:
    """β·bias + α·(A @ B), spelled out unless A or B is a weight."""
    bias, a, b = summands(call)
    beta = call.kwargs.get("beta", 1)
    if is_tainted(a) and is_tainted(b):
        return spelled_sum(call)
    found = None if isinstance(call.recipe.linear, Plain) or is_tainted(bias) else _weight_among([a, b])
    if found is not None:

        def layer(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
            factors = (x, weight) if found[0] is a else (weight, x)
            product: Tensor = torch.einsum(WITH_SUM[call.name][0], *factors) * call.kwargs.get("alpha", 1)
            return product if bias is None else product + bias

        return reweighed(call, call.recipe.linear, layer, *found, bias * beta)
    out = call.run()
    if not is_tainted(bias) and beta != 0:
        call.book("bias", out, bias * beta if beta != 1 else bias)
    return out


WITH_SUM = {
    "addmm": ("ik,kj->ij", "mat1", "mat2"),
    "baddbmm": ("bik,bkj->bij", "batch1", "batch2"),
    "addbmm": ("bik,bkj->ij", "batch1", "batch2"),
    "addmv": ("ik,k->i", "mat", "vec"),
    "addr": ("i,j->ij", "vec1", "vec2"),
}
"""Functions β·bias + α·(A @ B): the product in Einstein's notation, and what its factors are called."""


def summands(call: Call) -> tuple[Any, Any, Any]:
    """The bias and both factors of one of `WITH_SUM`."""
    _, first, second = WITH_SUM[call.name]
    return call.argument(0, "input"), call.argument(1, first), call.argument(2, second)


def spelled_sum(call: Call) -> Any:
    """The same as a product and a sum, each with its own rule."""
    bias, a, b = summands(call)
    beta, alpha = call.kwargs.get("beta", 1), call.kwargs.get("alpha", 1)
    with call.interception:
        product = torch.einsum(WITH_SUM[call.name][0], a, b)
        if alpha != 1:
            product = product * alpha
        return product if beta == 0 else product + (bias if beta == 1 else bias * beta)


def solve(call: Call) -> Any:
    """A⁻¹ B: linear in B; the system A is a constant, like any denominator."""
    if call.recipe.norm == "gradient":
        return shared(call, 1.0, "product") if len(call.tainted()) > 1 else call.run()
    system = call.argument(0, "A")
    return call.replaced(0, "A", system.detach()).run()


def fused_product(call: Call) -> Any:
    """addcmul(x, a, b) and addcdiv(x, a, b), spelled out."""
    x, a, b = call.args[:3]
    value = call.kwargs.get("value", 1)
    with call.interception:
        return x + value * (a * b if call.name == "addcmul" else a / b)


# transformers registers an operator of its own where torch has no kernel for this; it does what torch's does.
GROUPED = ("_grouped_mm", "grouped_mm", "transformers::grouped_mm_fallback")


def grouped(call: Call) -> Any:
    """Products of groups of rows with one matrix each (sparse experts)."""
    return call.run() if isinstance(call.recipe.linear, Plain) else _with_weight(call)


def rules(recipe: Recipe) -> dict[str, Rule]:
    return {
        "mul": multiply,
        "div": divide,
        "rdiv": divide,
        **dict.fromkeys(MATRIX, matrix),
        "bilinear": bilinear,
        **dict.fromkeys(WITH_SUM, matrix_with_sum),
        **dict.fromkeys(("linalg_solve_triangular", "linalg_solve", "cholesky_solve", "triangular_solve"), solve),
        "addcmul": fused_product,
        "addcdiv": fused_product,
        **dict.fromkeys(GROUPED, grouped),
    }
