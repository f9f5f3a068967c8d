"""Moves, sums and joins: relevance goes where values go, constants keep their share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.core.helpers import CLOSE, books, explain, normal, reference
from whence.core.recipe import recipes
from whence.core.rules import table

C = normal(2, 4, 6, seed=5)
INDEX = torch.tensor([2, 0, 1])
MASK = normal(2, 4, 6, seed=6) > 0


def assigned(x: Tensor, where: object, value: Tensor | float) -> Tensor:
    y = x * 1.0
    y[where] = value
    return y


def filled(x: Tensor, f: Callable[[Tensor, Tensor], object]) -> Tensor:
    """A buffer of constants that tainted values are written into."""
    y = C.clone()
    f(y, x)
    return y


# Functions of x (2, 4, 6) that are linear in x, up to a constant.
LINEAR: dict[str, Callable[[Tensor], Tensor]] = {
    "view": lambda x: x.view(2, 24),
    "transpose": lambda x: x.transpose(1, 2),
    "mT": lambda x: x.mT,
    "permute": lambda x: x.permute(0, 2, 1).contiguous(),
    "index": lambda x: x[:, [0, 2], ::2],
    "select": lambda x: x[:, 1],
    "roll": lambda x: x.roll(1, 1),
    "flip": lambda x: x.flip(1),
    "expand": lambda x: x[:, :1].expand(2, 3, 6),
    "repeat": lambda x: x.repeat(1, 2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "gather": lambda x: x.gather(1, INDEX.view(1, 3, 1).expand(2, 3, 6)),
    "index_select": lambda x: x.index_select(1, INDEX),
    "chunk and cat": lambda x: torch.cat([t * (n + 1) for n, t in enumerate(x.chunk(3, -1))], -1),
    "unbind and stack": lambda x: torch.stack([t * (n + 1) for n, t in enumerate(x.unbind(1))], 1),
    "split sizes": lambda x: torch.split(x, [1, 5], -1)[1],
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean((1, 2))[:, None],
    "cumsum": lambda x: x.cumsum(1),
    "neg": lambda x: -x,
    "avg_pool": lambda x: F.avg_pool1d(x, 2),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool1d(x, 3),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
    "unfold": lambda x: x.unfold(2, 3, 1),
    "tril": lambda x: x.tril(),
    "max": lambda x: x.max(1).values,
    "amax": lambda x: x.amax(1),
    "topk": lambda x: x.topk(2, -1)[0],
    "sort": lambda x: x.sort(-1).values,
    "max_pool": lambda x: F.max_pool1d(x, 2),
    "relu": F.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.3]).double()),
    "abs": torch.abs,
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "fft": lambda x: torch.fft.rfft(x).real,
    "fft there and back": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=6),
    "complex": lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(2, 4, 3, 2)) * (1 + 2j)).flatten(2),
    "add": lambda x: x + C,
    "radd": lambda x: 2.0 + x,
    "add with alpha": lambda x: torch.add(x, C, alpha=3),
    "constant first, with alpha": lambda x: torch.add(C, x, alpha=3),
    "sub": lambda x: x - C,
    "rsub": lambda x: 1 - x,
    "torch.rsub": lambda x: torch.rsub(x, C),
    "constant sub": lambda x: C - x,
    "sub with alpha": lambda x: torch.sub(C, x, alpha=2),
    "add of two": lambda x: x + x.flip(1),
    "scaled": lambda x: x * 0.3 * C / 7,
    "cat with constants": lambda x: torch.cat([x, C], 1),
    "cat with constants in front": lambda x: torch.cat((C[:, :1], x), dim=1),
    "where": lambda x: torch.where(MASK, x, C),
    "where method": lambda x: C.where(MASK, x),
    "where scalar": lambda x: torch.where(MASK, x, 1.5),
    "masked_fill": lambda x: x.masked_fill(MASK, 0.7),
    "masked_fill_": lambda x: (x * 1.0).masked_fill_(MASK, 0.7),
    "pad": lambda x: F.pad(x, (1, 1)),
    "pad with a value": lambda x: F.pad(x, (1, 1), value=0.3),
    "pad with an integer": lambda x: F.pad(x, (1, 1), value=2),
    "setitem tensor": lambda x: assigned(x, (slice(None), 0), C[:, 0]),
    "setitem number": lambda x: assigned(x, MASK, 0.3),
    "setitem into constants": lambda x: filled(x, lambda y, x: y.__setitem__((slice(None), slice(0, 2)), x[:, 1:3])),
    "index_add_": lambda x: filled(x, lambda y, x: y.index_add_(1, INDEX, x[:, :3])),
    "index_copy_": lambda x: filled(x, lambda y, x: y.index_copy_(1, INDEX, x[:, :3])),
    "scatter_": lambda x: filled(x, lambda y, x: y.scatter_(1, INDEX.view(1, 3, 1).expand(2, 3, 6), x[:, :3])),
    "scatter_add_": lambda x: filled(x, lambda y, x: y.scatter_add_(1, INDEX.view(1, 3, 1).expand(2, 3, 6), x[:, :3])),
    "scatter_reduce": lambda x: C.scatter_reduce(1, INDEX.view(1, 3, 1).expand(2, 3, 6), x[:, :3], "sum"),
    "index_put_": lambda x: filled(x, lambda y, x: y.index_put_((torch.tensor([0, 1]),), x)),
    "copy_": lambda x: filled(x, lambda y, x: y.copy_(x)),
    "copy_ into a part": lambda x: filled(x, lambda y, x: y[:, 1:].copy_(x[:, 1:])),
    "copy_ into two parts": lambda x: filled(x, lambda y, x: (y[:, 1].copy_(x[:, 1]), y[:, 2].copy_(x[:, 2]))),
    "copy_ of a constant": lambda x: (x * 1.0).copy_(C) + x,
    "copy_ of a constant into a part": lambda x: written(x, lambda y: y[:, 1].copy_(C[:, 1])),
    "add_ into a constant": lambda x: filled(x, lambda y, x: y.add_(x, alpha=2)),
    "mul_ into a constant": lambda x: filled(x, lambda y, x: y.mul_(x)),
    "mul_ into a part of a constant": lambda x: filled(x, lambda y, x: y[:, 1:].mul_(x[:, 1:])),
    "add_ into a part of a constant": lambda x: filled(x, lambda y, x: y[:, 1:].add_(x[:, 1:])),
    "add_ into a transposed constant": lambda x: filled(x, lambda y, x: y.transpose(1, 2).add_(x.transpose(1, 2))),
    "+= into a part of a constant": lambda x: filled(x, plus_equals),
    "add_ of a constant to a part": lambda x: written(x, lambda y: y[:, 1:].add_(C[:, 1:])),
    "+= of a constant to a part": lambda x: written(x, lambda y: plus_equals(y, C)),
    "add_ of a constant to a transposed view": lambda x: written(x, lambda y: y.mT.add_(C.mT)),
    "mul_ of a part": lambda x: written(x, lambda y: y[:, ::2].mul_(3.0)),
    "masked_fill_ of a part": lambda x: written(x, lambda y: y[:, 1].masked_fill_(MASK[:, 1], 0.3)),
    "fill_ of a part": lambda x: written(x, lambda y: y[:, 1].fill_(0.3)),
    "fill_ with an integer": lambda x: written(x, lambda y: y[:, 1].fill_(3)),
    "zero_ of a part": lambda x: written(x, lambda y: y[:, 1].zero_()),
    "setitem of a part of a part": lambda x: filled(x, lambda y, x: y[:, 1:].__setitem__((slice(None), 0), x[:, 0])),
    "lerp": lambda x: torch.lerp(x, C, 0.3),
    "lerp from a constant": lambda x: torch.lerp(C, x, 0.3),
    "block in place": lambda x: (x * 1.0).add_(C).sub_(1.0).mul_(2.0).div_(3.0),
    "operators in place": lambda x: in_place(x),
    "maximum with a constant": lambda x: torch.maximum(x, C),
    "minimum with a constant": lambda x: torch.minimum(C, x),
    "clone": lambda x: x.clone(),
    "casts": lambda x: x.to(torch.float64).double().type_as(C),
    "nan_to_num": lambda x: torch.nan_to_num(x),
}


def written(x: Tensor, f: Callable[[Tensor], object]) -> Tensor:
    """x after its parts were changed in place."""
    y = x * 1.0
    f(y)
    return y


def plus_equals(y: Tensor, x: Tensor) -> None:
    y[:, 1:] += x[:, 1:]


def in_place(x: Tensor) -> Tensor:
    y = x * 1.0
    y += C
    y -= 0.5
    y *= 2.0
    y /= C.abs() + 1
    return y


@pytest.mark.parametrize("name", ["gi", "exact"])
@pytest.mark.parametrize("function", LINEAR)
def test_linear_functions_keep_their_gradient_and_book_their_constants(function: str, name: str) -> None:
    f, x = LINEAR[function], normal(2, 4, 6)
    done = explain(f, x, name)
    torch.testing.assert_close(done.relevance["x"], reference(f, x), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)
    torch.testing.assert_close(done.outputs, f(x), rtol=0, atol=0)
    assert not done.unruled


def test_a_constant_is_booked_as_what_it_is() -> None:
    x = normal(2, 4, 6)
    assert set(explain(lambda x: x + C, x).sinks) == {"constant"}
    table = torch.nn.Parameter(normal(4, 6))
    assert set(explain(lambda x: x + table, x).sinks) == {"position"}
    embedding = torch.nn.Embedding(4, 6).double()
    assert set(explain(lambda x: x + embedding(torch.arange(4)), x).sinks) == {"position"}


def test_integer_constants_are_booked() -> None:
    x = normal(2, 3)
    for f in (lambda x: x + 1, lambda x: 1 + x, lambda x: torch.where(x > 0, x, 1), lambda x: x.masked_fill(x > 0, 1)):
        torch.testing.assert_close(books(explain(f, x)), torch.zeros(2, dtype=torch.float64), **CLOSE)


def test_masked_scatter() -> None:
    """It reads its source in order, across examples: only the sum over the batch is conserved."""
    x = normal(2, 4, 6)
    done = explain(lambda x: C.masked_scatter(MASK, x), x)
    torch.testing.assert_close(done.relevance["x"], reference(lambda x: C.masked_scatter(MASK, x), x), **CLOSE)
    assert done.ledger is not None
    assert not done.ledger.is_split
    kept = sum(float(a.sum()) for book in (done.ledger.amounts, done.ledger.unsplit) for a in book.values())
    assert float(done.inputs.sum()) + kept == pytest.approx(float(done.target.sum()), rel=1e-10)


def test_results_without_gradient_are_constants() -> None:
    x = normal(2, 5)
    done = explain(lambda x: x + x.argmax(-1, keepdim=True) + (x > 0), x)
    torch.testing.assert_close(done.relevance["x"], reference(lambda x: x, x), **CLOSE)


def test_positions_that_the_words_are_added_to_in_place() -> None:
    table = torch.nn.Embedding(4, 6).double()

    def run(x: Tensor) -> Tensor:
        y = table(torch.arange(4)).expand(2, 4, 6).contiguous()
        y += x
        return y

    x = normal(2, 4, 6)
    done = explain(run, x)
    assert set(done.sinks) == {"position"}
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("name", list(recipes))
def test_every_recipe_has_a_table_with_the_same_functions(name: str) -> None:
    assert set(table(recipes[name])) == set(table(recipes["gi"]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.lerp(x[:, :2], x[:, 2:], torch.sigmoid(x[:, :2])),
        lambda x: torch.max(x, C),
        lambda x: torch.min(C, x),
    ],
)
def test_choices_and_mixtures_keep_the_books(function: Callable[[Tensor], Tensor]) -> None:
    done = explain(function, normal(2, 4, 6), "exact")
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


GRID = normal(2, 3, 5, 2, seed=9).tanh()


def sampled(x: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(x.view(2, 1, 4, 6), grid, align_corners=False)


def looks_for_itself(x: Tensor, held: Tensor | None = None) -> Tensor:
    """Deformable attention: the values say where to look."""
    grid = (GRID + x.mean((1, 2)).view(2, 1, 1, 1) * 0.1) if held is None else held
    return sampled(x, grid)


def test_where_to_look_is_held_as_attention_is() -> None:
    x = normal(2, 4, 6, seed=1)
    held = GRID + x.mean((1, 2)).view(2, 1, 1, 1) * 0.1
    for name in ("exact", "ah", "attn_lrp"):
        done = explain(looks_for_itself, x, name)
        torch.testing.assert_close(done.relevance["x"], reference(lambda x: looks_for_itself(x, held), x), **CLOSE)
        torch.testing.assert_close(books(done), torch.zeros(2, dtype=x.dtype), **CLOSE)
    plain = explain(looks_for_itself, x, "gi")
    torch.testing.assert_close(plain.relevance["x"], reference(looks_for_itself, x), **CLOSE)
    torch.testing.assert_close(books(plain), torch.zeros(2, dtype=x.dtype), **CLOSE)
    fixed = explain(lambda x: sampled(x, GRID), x)
    torch.testing.assert_close(fixed.relevance["x"], reference(lambda x: sampled(x, GRID), x), **CLOSE)
