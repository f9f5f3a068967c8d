"""Functions that are linear in what carries relevance: moves, sums, and joins with constants."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whence.core.call import (
    Call,
    Rule,
    is_tainted,
    mark_origin,
    mark_role,
    mark_table,
    origin_of,
    role_of,
    table_of,
)
from whence.core.chains import STEPS, shortened
from whence.core.naming import out_of_place
from whence.core.recipe import Recipe

__all__ = ["JOINS", "LINEAR", "is_centred", "mark_mean", "rules"]

# Linear and homogeneous in the tainted arguments, whatever the others are: relevance goes where values go.
LINEAR = frozenset(
    # the same values elsewhere
    "view reshape transpose permute t T flatten ravel squeeze unsqueeze expand expand_as repeat tile narrow "
    "select getitem split tensor_split split_with_sizes chunk unbind index_select gather take_along_dim take "
    "contiguous clone roll flip movedim moveaxis swapaxes swapdims unfold view_as reshape_as unflatten "
    "as_strided pixel_shuffle pixel_unshuffle channel_shuffle diagonal diag diag_embed tril triu "
    "repeat_interleave broadcast_to broadcast_tensors masked_select rot90 alias as_subclass atleast_1d "
    "atleast_2d atleast_3d view_as_complex view_as_real real imag conj resolve_conj resolve_neg adjoint meshgrid "
    "dsplit hsplit vsplit combinations slice "
    # casts
    "to type type_as float double half bfloat16 cpu cuda requires_grad detach lift_fresh "
    # sums and averages
    "sum mean nansum nanmean cumsum neg fold avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d "
    "adaptive_avg_pool2d adaptive_avg_pool3d interpolate upsample trace fft_fft fft_ifft "
    "fft_fft2 fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_ifft2 fft_fftn fft_ifftn diff segment_reduce "
    "nan_to_num "
    # choices among values: the chosen one gets it all
    "max min amax amin topk sort msort median kthvalue max_pool1d max_pool2d max_pool3d "
    "adaptive_max_pool1d adaptive_max_pool2d max_pool1d_with_indices max_pool2d_with_indices cummax cummin "
    # homogeneous: f(ax) = a f(x) for a > 0, so the gradient is the slope
    "relu leaky_relu prelu rrelu abs "
    # nothing happens in evaluation
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout "
    # gradients do not pass here and relevance does not either: the result is a constant
    "zero zeros_like ones_like full_like empty_like rand_like randn_like new_zeros new_ones new_full new_empty "
    "new_tensor argmax argmin argsort eq ne lt le gt ge isnan isinf isfinite allclose equal any all bucketize "
    "searchsorted histc unique one_hot nonzero count_nonzero isin is_same_size result_type logical_not long int "
    "bool broadcast_shapes assert_async _assert_async signbit logical_and logical_or".split()
)
CASTS = frozenset("to type type_as float double half bfloat16 contiguous clone relu leaky_relu abs neg dropout".split())

# Linear in all their tensors together: what is not tainted is a constant summand.
JOINS = frozenset(
    "cat stack hstack vstack dstack column_stack where masked_fill masked_scatter index_put index_add "
    "index_copy index_fill select_scatter slice_scatter diagonal_scatter scatter scatter_add scatter_reduce setitem "
    "copy lerp pad fill constant_pad_nd block_diag".split()
)
# Of these an integer may be a value; of the other joins it is an axis.
FILLS = frozenset("where masked_fill fill index_fill pad constant_pad_nd scatter setitem".split())


def linear(call: Call) -> Any:
    if call.name in ("max", "min") and isinstance(call.argument(1, "other"), Tensor):  # of two tensors
        return extremum(call)
    out = call.run()
    source = call.args[0] if call.args else call.kwargs.get("input")
    role = role_of(source)
    if isinstance(out, Tensor):
        if call.name in CASTS:
            mark_origin(out, source, linear=True)
            if call.name in ("relu", "leaky_relu") and role is None:
                mark_role(out, "gate")
        elif call.name == "mean":
            mark_mean(out, source)
        mark_role(out, role)
    elif role is not None and isinstance(out, (tuple, list)):  # topk: the chosen ones
        for o in out:
            if is_tainted(o):
                mark_role(o, role)
    return shortened(call, out) if call.name in STEPS else out


linear.in_place_is_fine = True  # type: ignore[attr-defined]


def mark_mean(out: Tensor, x: Any) -> None:
    """x.mean(…, keepdim=True) is what a spelled-out norm takes from x."""
    if isinstance(x, Tensor) and out.dim() == x.dim() and out.shape != x.shape:
        out._whence_mean_of = origin_of(x, create=True)[0]  # type: ignore[attr-defined]


def add(call: Call) -> Any:
    """x ± y: linear in both; what is not tainted keeps its share."""
    alpha = call.kwargs.get("alpha", 1)
    sign = -1 if call.name in ("sub", "rsub") else 1
    first, second = call.argument(0, "input"), call.argument(1, "other")
    if call.keeps_books and not is_tainted(first) and call.is_in_place:
        first = first.clone()  # a constant that the call overwrites and taints
        mark_table(first, table_of(call.args[0]))
    if call.recipe.norm == "detach_mean" and call.name == "sub" and is_centred(first, second):
        return _centred(call, first, second)
    out = call.run()
    if call.name == "rsub":
        first, second = second, first
    if is_tainted(first) and is_tainted(second):
        if (origin := origin_of(first)[0]) is not None and origin is origin_of(second)[0]:
            mark_origin(out, first, linear=origin_of(second)[1])
        if role_of(first) == role_of(second) == "probability":
            mark_role(out, "probability")
        return shortened(call, out) if call.name == "add" else out
    tainted, constant, factor = (first, second, sign * alpha) if is_tainted(first) else (second, first, 1)
    if not isinstance(constant, Tensor) or constant.dim() == 0:
        mark_origin(out, tainted, linear=False)  # 1 + tanh(x) is still a function of x
    elif role_of(tainted) == "probability":
        mark_role(out, "probability")
    _book(call, out, constant, factor)
    return out


add.in_place_is_fine = True  # type: ignore[attr-defined]


def is_centred(x: Any, mean: Any) -> bool:
    """Whether `mean` is the mean of `x`: nothing but a norm takes it away."""
    taken = getattr(mean, "_whence_mean_of", None)
    return is_tainted(x) and is_tainted(mean) and taken is not None and taken is origin_of(x)[0]


def _centred(call: Call, x: Tensor, mean: Tensor) -> Any:
    """x - [mean(x)]: the spelled-out norm's mean as a constant; what it would have handed on is the norm's."""
    fresh = call.replaced(1, "other", mean.detach())
    out = fresh.run()
    call.book("norm", out, -mean.detach())
    return out


def _book(call: Call, out: Tensor, constant: Any, factor: float) -> None:
    if not call.keeps_books:
        return
    if not isinstance(constant, Tensor):
        call.book("constant", out, float(factor * constant))
    elif constant.dtype != torch.bool:
        value = constant if factor == 1 else constant * factor
        mark_table(value, table_of(constant))
        call.book("constant", out, value)


def join(call: Call) -> Any:
    """Concatenation, selection, assignment: the untainted part of the result is a constant."""
    if call.name == "setitem":
        return _assign(call)
    if call.name == "lerp" and is_tainted(call.argument(2, "weight")):  # a product
        start, end, weight = (call.argument(n, name) for n, name in enumerate(("input", "end", "weight")))
        with call.interception:
            return start + weight * (end - start)
    constant = _constant_part(call) if call.keeps_books else None
    out = call.run()
    if constant is not None and is_tainted(out):
        mark_table(constant, next((t for x in call.tensors() if (t := table_of(x)) is not None), None))
        call.book("constant", out, constant)
    tainted = call.tainted()
    if any(role_of(t) == "probability" for t in tainted):
        mark_role(out, "probability")
    if isinstance(out, Tensor) and call.name in ("masked_fill", "where"):
        first = call.args[0] if call.name == "masked_fill" else call.args[-1]
        mark_role(out, role_of(first))
        if len({id(origin_of(t)[0]) for t in tainted}) == 1 and origin_of(tainted[0])[0] is not None:
            mark_origin(out, tainted[0], linear=False)
    return shortened(call, out) if call.name == "cat" and constant is None else out


join.in_place_is_fine = True  # type: ignore[attr-defined]


def _assign(call: Call) -> None:
    """x[index] = value. The new x is linear in the old x and in the value."""
    target, index, value = call.args
    before = target.detach().clone() if call.keeps_books and not is_tainted(target) else None
    if call.keeps_books and is_tainted(target) and not is_tainted(value):
        before = torch.zeros_like(target)
        before[index] = value
    elif before is not None:
        before[index] = 0
    target[index] = value
    if before is not None:
        call.interception.place_written(call)
        call.book("constant", target, before)


def _constant_part(call: Call) -> Tensor | None:
    """The value of the call with every tainted tensor set to zero."""
    if call.name == "copy":  # the target is overwritten
        value = call.argument(1, "src")
        return None if is_tainted(value) else value.expand(call.args[0].shape)
    others = [t for t in call.tensors() if not t.requires_grad and t.is_floating_point()]
    number = (int, float) if call.name in FILLS else float
    numbers = [a for a in (*call.args, *call.kwargs.values()) if isinstance(a, number) and a != 0]
    if not others and not numbers:
        return None
    with torch.no_grad():
        zeroed = call.mapped(lambda t: torch.zeros_like(t) if t.requires_grad else t)
        func = out_of_place(call.func) if call.is_in_place else call.func
        made: Tensor = func(*zeroed.args, **zeroed.kwargs)
        return made


def extremum(call: Call) -> Any:
    """maximum(x, y): the larger gets it all; where that is a constant, it keeps it."""
    x, y = call.argument(0, "input"), call.argument(1, "other")
    out = call.run()
    if is_tainted(x) and is_tainted(y):
        return out
    constant = y if is_tainted(x) else x
    kept = torch.where(out.detach() == constant, constant, torch.zeros_like(constant))
    call.book("constant", out, kept)
    return out


def sample(call: Call) -> Any:
    """x at the places of a grid: linear in x. Where to look is a choice as attention's weights are one, and is held as
    it is (deformable attention); under a recipe of plain gradients it has its own."""
    x, grid = call.argument(0, "input"), call.argument(1, "grid")
    if not is_tainted(grid):
        return linear(call)
    if not is_tainted(x) or call.recipe.softmax == call.recipe.product == "gradient":
        return call.measured("product")
    return linear(call.replaced(1, "grid", grid.detach()))


def rules(recipe: Recipe) -> dict[str, Rule]:
    return {
        **dict.fromkeys(LINEAR, linear),
        **dict.fromkeys(JOINS, join),
        "grid_sample": sample,
        **dict.fromkeys(("add", "sub", "rsub"), add),
        **dict.fromkeys(("maximum", "minimum"), extremum),
    }
