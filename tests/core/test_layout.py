"""Where the examples lie in a tensor: followed through what models do.

Whose an element is can be measured: another example n changes it. The mark must say the same.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from whence.core.batch import Batch
from whence.core.interception import Interception, as_it_is
from whence.core.layout import Lane, examples_first, layout_of, mark_layout, spread, summed

EXAMPLES, TOKENS, WIDTH = 3, 4, 6


def followed(function, x: Tensor) -> tuple[Tensor, Lane | None]:
    """The result for `x` (example first), and where its examples lie."""
    mode = Interception(Batch.of({"x": x}, "x"), {}, default=as_it_is, follows=("examples",))
    with torch.enable_grad(), mode:
        out = function(mode.prepared()["x"])
    layout = layout_of(out)
    return out, None if layout is None else layout[0]


def numbers(*shape: int) -> Tensor:
    """A tensor whose elements are the number of their example."""
    rows = torch.arange(1.0, shape[0] + 1)
    return rows.reshape(-1, *(1,) * (len(shape) - 1)).expand(shape).clone()


KEPT = {
    "as it is": lambda x: x,
    "tokens first": lambda x: x.transpose(0, 1),
    "tokens first, in memory too": lambda x: x.transpose(0, 1).contiguous(),
    "examples and tokens as one": lambda x: x.reshape(-1, WIDTH),
    "tokens and examples as one": lambda x: x.transpose(0, 1).reshape(-1, WIDTH),
    "heads": lambda x: x.view(EXAMPLES, TOKENS, 2, 3).transpose(1, 2),
    "heads in the batch": lambda x: x.view(EXAMPLES, TOKENS, 2, 3).transpose(1, 2).reshape(-1, TOKENS, 3),
    "heads before the batch": lambda x: x.view(EXAMPLES, TOKENS, 2, 3).permute(2, 0, 1, 3).reshape(-1, TOKENS, 3),
    "there and back": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "a part of the tokens": lambda x: x[:, 1:3],
    "one token": lambda x: x[:, 0],
    "every other channel": lambda x: x[..., ::2],
    "with a class token": lambda x: torch.cat([torch.zeros(EXAMPLES, 1, WIDTH), x], 1),
    "mean over tokens": lambda x: x.mean(1),
    "sum over channels, kept": lambda x: x.sum(-1, keepdim=True),
    "an axis in front": lambda x: x[None],
    "an axis within": lambda x: x.unsqueeze(1),
    "chunks": lambda x: x.chunk(2, -1)[1],
    "broadcast": lambda x: x[:, None] + torch.zeros(1, 5, 1, 1),
    "repeated": lambda x: x.repeat(1, 2, 1),
    "windows": lambda x: x.unfold(1, 2, 1),
    "einsum": lambda x: torch.einsum("btd,de->ebt", x, torch.eye(WIDTH)),
    "linear": lambda x: torch.nn.functional.linear(x, torch.eye(WIDTH)),
    "matmul with itself": lambda x: x @ x.mT,
    "softmax": lambda x: x.softmax(-1),
    "stacked": lambda x: torch.stack([x, x], 1),
    "padded": lambda x: torch.nn.functional.pad(x, (0, 0, 1, 2)),
    "rolled along tokens": lambda x: x.roll(1, 1),
    "gathered tokens": lambda x: x.index_select(1, torch.tensor([2, 0])),
    "indexed tokens": lambda x: x[:, torch.tensor([2, 0])],
    "split and joined": lambda x: torch.cat(x.split(2, 1), 1),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "convolution over tokens": lambda x: torch.nn.functional.conv1d(x.mT, torch.ones(WIDTH, WIDTH, 1)),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_mark_says_where_the_examples_are(name):
    out, lane = followed(KEPT[name], torch.randn(EXAMPLES, TOKENS, WIDTH))
    assert lane is not None
    said = spread(torch.arange(1.0, EXAMPLES + 1), out, lane).expand(out.shape)
    owner = _owner(KEPT[name])
    assert torch.equal(said[owner > 0], owner[owner > 0])  # 0: what the function put in beside them


def _owner(function) -> Tensor:
    """At each element of the result the number of the only example that changes it, or 0."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(EXAMPLES, TOKENS, WIDTH, generator=generator)
    base = function(x)
    owner = torch.zeros_like(base)
    for n in range(EXAMPLES):
        changed = x.clone()
        changed[n] += 1 + torch.rand(TOKENS, WIDTH, generator=generator)
        touched = (function(changed) - base).abs() > 1e-5
        assert not (owner[touched] > 0).any(), "two examples meet in one element"
        owner[touched] = n + 1
    return owner


MIXED = {
    "mean over examples": lambda x: x.mean(0),
    "sum of all": lambda x: x.sum(),
    "rolled along examples": lambda x: x.roll(1, 0),
    "sorted over examples": lambda x: x.sort(0).values,
    "examples in another order": lambda x: x.flip(0),
    "cumulative over examples": lambda x: x.cumsum(0),
    "normalised over the batch": lambda x: torch.nn.functional.normalize(x, dim=0),
    "one of them": lambda x: x[0],
    "matmul over examples": lambda x: torch.einsum("btd,btd->td", x, x),
}


@pytest.mark.parametrize("name", MIXED)
def test_where_examples_meet_the_mark_ends(name):
    _, lane = followed(MIXED[name], torch.randn(EXAMPLES, TOKENS, WIDTH))
    assert lane is None


def test_equal_sizes_are_not_confused():
    """As many tokens as examples, tokens first: sizes say nothing, the mark does."""
    x = torch.randn(4, 4, 4)
    assert followed(lambda x: x.transpose(0, 1).contiguous() * 2, x)[1] == Lane(1, 1, 4)
    assert followed(lambda x: x.transpose(0, 2).clone(), x)[1] == Lane(2, 1, 4)


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(4)), st.integers(0, 2), st.booleans())
def test_any_order_of_axes_joined_anywhere(order, join, copied):
    x = numbers(3, 2, 4, 5)

    def function(x: Tensor) -> Tensor:
        x = x.permute(order)
        x = x.contiguous() if copied else x
        return x.reshape(*x.shape[:join], -1, *x.shape[join + 2 :])

    out, lane = followed(function, x)
    assert lane is not None
    assert torch.equal(spread(torch.arange(1.0, 4.0), out, lane).expand(out.shape), function(x))


def test_sums_by_example_and_by_token():
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    flat = x.reshape(12, 5)
    examples, tokens = Lane(0, 4, 3), Lane(0, 1, 4)
    torch.testing.assert_close(summed(flat, [examples]), x.sum((1, 2)))
    torch.testing.assert_close(summed(flat, [examples, tokens]), x.sum(2))
    torch.testing.assert_close(summed(x.transpose(0, 1), [Lane(1, 1, 3), Lane(0, 1, 4)]), x.sum(2))


def test_examples_first():
    x = torch.randn(3, 4, 5)
    torch.testing.assert_close(examples_first(x.transpose(0, 1), Lane(1, 1, 3)), x)
    torch.testing.assert_close(examples_first(x.reshape(12, 5), Lane(0, 4, 3)), x)


def test_marks_are_no_business_of_others():
    x = torch.zeros(2)
    mark_layout(x, None)
    assert layout_of(x) is None
    assert layout_of("x") is None


@pytest.mark.parametrize("turn", [lambda x: x.unsqueeze(-2), lambda x: x.transpose(0, 1), lambda x: x[None]])
def test_an_expanded_axis_has_no_steps(turn):
    """Positions that all examples share lie in memory once."""
    x = torch.arange(4)[None].expand(EXAMPLES, 4)
    mark_layout(x, (Lane(0, 1, EXAMPLES),))
    mode = Interception(Batch.of({"ids": torch.zeros(EXAMPLES, 4)}, "ids"), {}, follows=("examples",))
    with mode:
        out = turn(x)
    (lane,) = layout_of(out)
    assert out.stride(lane.axis) == 0
    assert (lane.inner, lane.size) == (1, EXAMPLES)


@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_what_ended_is_not_taken_up_again_by_a_join(join):
    """The first rows of examples folded with frames are all the first example's, as many as there may be."""

    def function(x: Tensor) -> Tensor:
        frames = x.reshape(EXAMPLES * 4, 5)
        return join([frames[:EXAMPLES], x[:, 0]], 1)

    assert followed(function, numbers(EXAMPLES, 4, 5))[1] is None
    kept = followed(lambda x: join([x[:, 1], x[:, 0]], 1), numbers(EXAMPLES, 4, 5))[1]
    assert kept == Lane(0, 1, EXAMPLES)
