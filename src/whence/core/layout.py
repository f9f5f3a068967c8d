"""Where the examples of a batch lie in a tensor, followed from the input through every function of the model.

Models put tokens first, fold heads into the batch, flatten examples and tokens into one axis. A tensor does not say
which of its axes is the batch, and sizes may be equal by chance; so each tensor that carries relevance has a mark:

    Lane(axis, inner, size): element i along `axis` belongs to example (i // inner) % size

A view keeps the place of every element in memory, so strides say where the axis went, whatever the function was called.
Functions that copy have a rule here. Where a function mixes rows, or is not known to keep them apart, the mark ends
(None): whoever needs it must then look at one example at a time. Nothing is guessed from sizes.

The same marks follow the tokens of an input, where relevance is wanted per token in the middle of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["CannotSplit", "Lane", "Layout", "examples_first", "follow", "layout_of", "mark_layout", "spread", "summed"]


class Lane(NamedTuple):
    """Element i along `axis` belongs to number (i // inner) % size."""

    axis: int
    inner: int
    size: int


Layout = tuple[Lane | None, ...]
"""Where the things that are followed lie in one tensor: the examples, then, if wanted, the tokens."""


def layout_of(x: Any) -> Layout | None:
    return getattr(x, "_whence_layout", None)


def mark_layout(x: Any, layout: Layout | None) -> None:
    if layout is not None and isinstance(x, Tensor):
        x._whence_layout = layout  # type: ignore[attr-defined]


# -- using a layout ------------------------------------------------------------------------------------------------


class CannotSplit(Exception):
    """The rows of a batch can't be told apart here: look at one example at a time."""


def examples_first(x: Tensor, axis: Lane, kept: int = 1) -> Tensor:
    """(size, everything else, …): the axis in front, the last `kept` axes as they are, the others as one."""
    outer = x.shape[axis.axis] // (axis.size * axis.inner)
    moved = x.unflatten(axis.axis, (outer, axis.size, axis.inner)).movedim(axis.axis + 1, 0)
    first: Tensor = moved.reshape(axis.size, -1, *x.shape[x.dim() - kept :])
    return first


def spread(sums: Tensor, x: Tensor, axis: Lane) -> Tensor:
    """Numbers per example, at every element of `x` that belongs to it."""
    steps = torch.arange(x.shape[axis.axis], device=x.device) // axis.inner % axis.size
    return sums[steps].reshape([-1 if d == axis.axis else 1 for d in range(x.dim())])


def summed(x: Tensor, axes: Iterable[Lane], dtype: torch.dtype | None = None) -> Tensor:
    """Sums over everything but the given axes: (size, size, …)."""
    wanted = list(axes)
    if len(wanted) == 1:
        (one,) = wanted
        others = [d for d in range(x.dim()) if d != one.axis]
        row = x.sum(others, dtype=dtype) if others else x.to(dtype or x.dtype)
        return row.view(-1, one.size, one.inner).sum((0, 2)) if one.inner > 1 or len(row) > one.size else row
    # Several at once: a number for every cell along the axes that are involved, then a sum by number.
    held = sorted({a.axis for a in wanted})
    cells = x.sum([d for d in range(x.dim()) if d not in held], dtype=dtype) if x.dim() > len(held) else x
    number = torch.zeros((1,) * len(held), dtype=torch.long, device=x.device)
    for a in wanted:
        steps = torch.arange(x.shape[a.axis], device=x.device) // a.inner % a.size
        shape = [1] * len(held)
        shape[held.index(a.axis)] = -1
        number = number * a.size + steps.view(shape)
    total = torch.zeros([a.size for a in wanted], dtype=dtype or x.dtype, device=x.device)
    return (
        total.view(-1)
        .index_add_(0, number.expand(cells.shape).reshape(-1), cells.reshape(-1).to(total))
        .view(total.shape)
    )


# -- following -----------------------------------------------------------------------------------------------------


def follow(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> Layout | None:
    """The layout of `out`, a result of the function `name`, from those of its arguments."""
    known = layout_of(out)
    if known is not None:
        return known
    made: list[Lane | None] | None = None
    for position, x in _carriers(args, kwargs):
        layout = layout_of(x)
        if layout is None and x.requires_grad and name in JOINING:
            return None
        if layout is None or not (x.is_floating_point() == out.is_floating_point() or name in LOOKUPS):
            continue
        found = [None if axis is None else _moved(name, args, kwargs, x, position, axis, out) for axis in layout]
        if made is None:
            made = found
        else:  # an element of the result belongs where its arguments belong; where they differ, rows were mixed
            made = [a if b is None else b if a is None or a == b else None for a, b in zip(made, found, strict=True)]
    return None if made is None or all(a is None for a in made) else tuple(made)


def _carriers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[tuple[int, Tensor]]:
    for position, value in enumerate((*args, *kwargs.values())):
        if isinstance(value, Tensor):
            yield position, value
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, Tensor):
                    yield position, item


def _moved(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, position: int, axis: Lane, out: Tensor
) -> Lane | None:
    if out is x:
        return axis
    if _is_view_of(out, x):
        return _by_strides(x, axis, out)
    rule = RULES.get(name, _aligned)
    found = rule(_Move(args, kwargs, x, position, out), axis)
    return found if found is not None and _fits(found, out) else None


def _fits(axis: Lane, out: Tensor) -> bool:
    return 0 <= axis.axis < out.dim() and out.shape[axis.axis] % (axis.inner * axis.size) == 0


def _is_view_of(out: Tensor, x: Tensor) -> bool:
    base = out._base
    return base is not None and (base is x or base is x._base)


def _by_strides(x: Tensor, axis: Lane, out: Tensor) -> Lane | None:
    """Views: a step from one example to the next is the same distance in memory."""
    step = x.stride(axis.axis) * axis.inner * x.element_size()
    if step == 0:  # every example is the same: an expanded axis, which a view leaves expanded
        same = [d for d in range(out.dim()) if out.stride(d) == 0 and out.shape[d] == axis.size]
        return Lane(same[0], 1, axis.size) if len(same) == 1 and axis.inner == 1 else None
    for d, (size, stride) in enumerate(zip(out.shape, out.stride(), strict=True)):
        stride *= out.element_size()
        if size > 1 and stride > 0 and step % stride == 0 and size % (axis.size * (step // stride)) == 0:
            return Lane(d, step // stride, axis.size)
    return None


class _Move(NamedTuple):
    """A function that copies: its arguments, the one that is followed, and the result."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    x: Tensor
    position: int
    out: Tensor

    @property
    def values(self) -> tuple[Any, ...]:
        """All arguments, in the order in which `position` counts them."""
        return (*self.args, *self.kwargs.values())

    def given(self, position: int, *names: str) -> Any:
        if len(self.args) > position:
            return self.args[position]
        return next((self.kwargs[n] for n in names if n in self.kwargs), None)

    def dims(self, position: int, default: int | None = None) -> set[int] | None:
        """The axes that an argument names, counted from the front; None where it names none."""
        value = self.given(position, "dim", "dims", "axis")
        value = default if value is None or isinstance(value, (bool, Tensor)) else value
        if value is None:
            return None
        found = list(value) if isinstance(value, (list, tuple)) else [*self.args[position:]] or [value]
        return {d % self.x.dim() for d in found if isinstance(d, int) and not isinstance(d, bool)}


Rule = Callable[[_Move, Lane], Lane | None]
JOINING = frozenset({"cat", "stack"})
"""What ended among the things that are joined, ends for all: nobody knows whose rows it brings in. (TimeSformer takes
the class tokens of all films from the frames of the first.)"""
LOOKUPS = frozenset({"embedding", "getitem"})
"""Functions whose result follows its index."""


def _aligned(m: _Move, axis: Lane) -> Lane | None:
    """Elementwise and broadcast from the right; also what works within rows and keeps the number of axes."""
    shift = m.out.dim() - m.x.dim()
    place = axis.axis + shift
    return axis._replace(axis=place) if shift >= 0 and m.out.shape[place] == m.x.shape[axis.axis] else None


def _regrouped(m: _Move, axis: Lane) -> Lane | None:
    """Copies in the order of rows: reshape, flatten."""
    if m.out.numel() != m.x.numel():
        return None
    step = axis.inner * m.x.shape[axis.axis + 1 :].numel()
    stride = m.out.numel()
    for d, size in enumerate(m.out.shape):
        stride //= max(size, 1)
        if size > 1 and stride <= step < stride * size and step % stride == 0:
            return Lane(d, step // stride, axis.size)
    return None


def _reduced(position: int) -> Rule:
    """Sums, means, maxima: axes vanish."""

    def rule(m: _Move, axis: Lane) -> Lane | None:
        if isinstance(m.given(1, "other"), Tensor):
            return _aligned(m, axis)  # max(x, y) is elementwise
        dims = m.dims(position)
        if dims is None or axis.axis in dims:
            return None
        gone = sum(d < axis.axis for d in dims) if m.out.dim() < m.x.dim() else 0
        return axis._replace(axis=axis.axis - gone)

    return rule


def _along(position: int, default: int | None = None) -> Rule:
    """Functions that move elements along an axis: rows stay where they are unless it is theirs."""

    def rule(m: _Move, axis: Lane) -> Lane | None:
        dims = m.dims(position, default)
        return None if dims is None or axis.axis in dims else _aligned(m, axis)

    return rule


def _linear(m: _Move, axis: Lane) -> Lane | None:
    """x W: the last axis is summed over."""
    return axis if m.position == 0 and axis.axis < m.x.dim() - 1 else None


def _matmul(m: _Move, axis: Lane, first: int = 0) -> Lane | None:
    """A @ B, batches broadcast from the right."""
    from_end = axis.axis - m.x.dim()
    left = m.position == first
    other = m.values[first + 1 if left else first]
    if m.x.dim() == 1 or not isinstance(other, Tensor):
        return None
    if from_end == (-1 if left else -2):
        return None  # summed over
    lost = 1 if other.dim() == 1 else 0  # a vector on the other side takes an axis away
    if not left:
        return axis._replace(axis=m.out.dim() + from_end + (lost if from_end < -2 else 0))
    return axis._replace(axis=m.out.dim() + from_end + lost)


def _with_sum(m: _Move, axis: Lane) -> Lane | None:
    return _aligned(m, axis) if m.position == 0 else _matmul(m, axis, first=1)


def _einsum(m: _Move, axis: Lane) -> Lane | None:
    equation = m.args[0]
    if not isinstance(equation, str):
        return None
    operands = list(m.args[1]) if len(m.args) == 2 and isinstance(m.args[1], (list, tuple)) else list(m.args[1:])
    number = next((n for n, t in enumerate(operands) if t is m.x), None)
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if number is None or not output or number >= len(terms):
        return None
    term = terms[number]
    if "..." in term:
        filled = m.x.dim() - len(term.replace("...", ""))
        term = term.replace("...", "".join(chr(0x3B1 + n) for n in range(filled)))
        output = output.replace("...", "".join(chr(0x3B1 + n) for n in range(filled)))
    elif "..." in output:
        return None
    letter = term[axis.axis]
    return axis._replace(axis=output.index(letter)) if letter in output else None


def _convolution(m: _Move, axis: Lane) -> Lane | None:
    return axis if m.position == 0 and axis.axis == 0 and m.out.dim() == m.x.dim() else None


def _image(m: _Move, axis: Lane) -> Lane | None:
    """(batch, channel, …) to (batch, …) of any number of axes."""
    return axis if axis.axis == 0 else None


def _attention(m: _Move, axis: Lane) -> Lane | None:
    return _aligned(m, axis) if axis.axis < m.x.dim() - 2 else None


def _looked_up(m: _Move, axis: Lane) -> Lane | None:
    """A table's rows for ids: one axis more, behind."""
    return axis if not m.x.is_floating_point() else None


def _joined(m: _Move, axis: Lane) -> Lane | None:
    """cat: along the axis itself the pattern repeats, if every piece has whole rounds of it."""
    dims = m.dims(1, 0) or {0}
    if axis.axis not in dims:
        return _aligned(m, axis)
    pieces = m.args[0] if m.args else m.kwargs["tensors"]
    whole = all(p.shape[axis.axis] % (axis.size * axis.inner) == 0 for p in pieces)
    return axis if whole and all(layout_of(p) is not None for p in pieces) else None


def _stacked(m: _Move, axis: Lane) -> Lane | None:
    value = m.given(1, "dim", "axis")
    new = (value or 0) % m.out.dim()
    return axis._replace(axis=axis.axis + (new <= axis.axis))


def _repeated(m: _Move, axis: Lane) -> Lane | None:
    return axis._replace(axis=axis.axis + m.out.dim() - m.x.dim())


def _interleaved(m: _Move, axis: Lane) -> Lane | None:
    times, dims = m.given(1, "repeats"), m.dims(2)
    if dims is None or not isinstance(times, int):
        return None
    return axis._replace(inner=axis.inner * times) if axis.axis in dims else axis


def _indexed(m: _Move, axis: Lane) -> Lane | None:
    """x[index] with tensors in it. An index that is itself laid out by examples picks each example's own row."""
    index = m.args[1] if isinstance(m.args[1], tuple) else (m.args[1],)
    if m.position != 0:  # table[ids]; where the table itself is laid out, its own axis counts
        return axis if m.args[1] is m.x and layout_of(m.args[0]) is None else None
    if any(isinstance(i, Tensor) and i.dtype == torch.bool and i.dim() > 1 for i in index):
        return None
    spread = _spread(index, m.x.dim())
    place = next((n for n, i in enumerate(spread) if _axes_before(spread, n) == axis.axis and i is not None), None)
    if place is None or isinstance(spread[place], int):
        return None
    picks = [n for n, i in enumerate(spread) if isinstance(i, (Tensor, list))]
    chosen = [n for n, i in enumerate(spread) if isinstance(i, (Tensor, list, int))] if picks else []
    # What tensors pick stands where the first of them stood, or in front if something lies between them.
    together = chosen == list(range(chosen[0], chosen[-1] + 1)) if chosen else True
    wide = len(torch.broadcast_shapes(*(torch.as_tensor(spread[n]).shape for n in picks))) if picks else 0
    if place in picks:
        return _picked(spread[place], axis, wide, _kept(spread, chosen[0]) if together else 0)
    in_front = wide if chosen and (not together or chosen[0] < place) else 0
    return axis._replace(axis=_kept(spread, place) + in_front)


def _spread(index: tuple[Any, ...], dims: int) -> list[Any]:
    """One entry for every axis, and None for every new one."""
    missing = [slice(None)] * (dims - sum(i is not None and i is not Ellipsis for i in index))
    spread: list[Any] = []
    for i in index:
        spread += missing if i is Ellipsis else [i]
    return spread if any(i is Ellipsis for i in index) else spread + missing


def _axes_before(spread: list[Any], n: int) -> int:
    return sum(i is not None for i in spread[:n])


def _kept(spread: list[Any], n: int) -> int:
    """Axes of the result that come from slices and new axes before entry `n`."""
    return sum(i is None or isinstance(i, slice) for i in spread[:n])


def _picked(index: Any, axis: Lane, wide: int, at: int) -> Lane | None:
    """Each example's own row, for an index that runs through the examples; anything else may mix them."""
    layout = layout_of(index)
    own = layout[0] if layout else None
    if own is None or own.size != axis.size or axis.inner != 1:
        return None
    return own._replace(axis=at + wide - index.dim() + own.axis)


def _onto(m: _Move, axis: Lane) -> Lane | None:
    """Elements written among others: the others stay where they are, and say whose the place is."""
    return axis if m.position == 0 else None


def _ends(m: _Move, axis: Lane) -> Lane | None:
    return None


def _table() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}

    def enter(rule: Rule, names: str) -> None:
        rules.update(dict.fromkeys(names.split(), rule))

    enter(_regrouped, "reshape flatten ravel reshape_as unflatten view view_as")
    enter(
        _reduced(1),
        "sum mean nansum nanmean prod max min amax amin median nanmedian mode any all argmax argmin logsumexp std var "
        "std_mean var_mean count_nonzero kthvalue aminmax",
    )
    enter(_reduced(2), "norm")
    enter(_along(1), "flip cumsum cumprod cummax cummin logcumsumexp index_select gather softmax log_softmax")
    enter(_along(1), "index_add index_copy index_fill scatter scatter_add scatter_reduce")
    enter(_along(1, -1), "sort argsort")
    enter(_along(2, -1), "topk diff")
    enter(_along(2), "roll take_along_dim")
    enter(_along(2, 1), "normalize")
    enter(_linear, "linear whence::packed_linear")
    enter(_matmul, "matmul mm bmm mv")
    enter(_with_sum, "addmm baddbmm addmv")
    enter(_einsum, "einsum")
    enter(
        _convolution,
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d max_pool2d max_pool3d "
        "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
        "adaptive_max_pool1d adaptive_max_pool2d interpolate upsample grid_sample group_norm instance_norm batch_norm",
    )
    enter(_image, "fold unfold pixel_shuffle pixel_unshuffle channel_shuffle")
    enter(_attention, "scaled_dot_product_attention")
    enter(_looked_up, "embedding")
    enter(_joined, "cat")
    enter(_stacked, "stack")
    enter(_repeated, "repeat tile")
    enter(_interleaved, "repeat_interleave")
    enter(_indexed, "getitem")
    enter(_onto, "masked_scatter index_put")
    enter(
        _ends,
        "masked_select take nonzero unique tensordot outer ger kron dot vdot inner chain_matmul linalg_multi_dot cdist "
        "addbmm hstack vstack dstack column_stack block_diag meshgrid combinations cartesian_prod rot90 "
        "permute_copy trace bincount histc _grouped_mm grouped_mm",
    )
    return rules


RULES = _table()
