"""Plain gradients, at the leaves' own values and at others."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.core.helpers import CLOSE, normal
from tests.core.models import Block, seeded
from whence.core.batch import Batch
from whence.core.gradients import by_place, gradients, leaves_of, rows_of
from whence.core.interception import Leaf
from whence.errors import ModelError, NumericsError

IDS = torch.tensor([[1, 2, 2], [3, 0, 4]])


class Reader(nn.Module):
    """Looks ids up in one of three layouts, changes the vectors in place, and sums them nonlinearly."""

    def __init__(self, layout: str):
        super().__init__()
        self.words = nn.Embedding(9, 4).double()
        with torch.no_grad():
            self.words.weight.copy_(normal(9, 4, seed=5))
        self.layout = layout

    def embed(self, ids: Tensor) -> Tensor:
        if self.layout == "time first":
            return self.words(ids.transpose(0, 1)).transpose(0, 1)
        if self.layout == "flat":
            return self.words(ids.reshape(-1)).view(*ids.shape, -1)
        return self.words(ids)

    def read(self, x: Tensor) -> Tensor:
        x *= 2.0
        x += 1.0
        return F.gelu(x).cumsum(1).sum((1, 2))

    def forward(self, ids: Tensor) -> Tensor:
        return self.read(self.embed(ids))


@pytest.fixture(params=["batch first", "time first", "flat"])
def reader(request: pytest.FixtureRequest) -> Reader:
    return Reader(request.param)


def _run(model: nn.Module, ids: Tensor, change=None):
    return gradients(lambda i: model(i["ids"]), Batch.of({"ids": ids}, "ids"), target=lambda y: y, change=change)


def _expected(model: Reader, x: Tensor) -> Tensor:
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model.read(x * 1.0).sum(), x)[0]


def test_the_gradient_of_embeddings(reader: Reader) -> None:
    done = _run(reader, IDS)
    x = reader.words(IDS).detach()
    found = done.collected(lambda _, value, grad: value * grad)["ids"]
    torch.testing.assert_close(found, (x * _expected(reader, x)).sum(-1), **CLOSE)
    torch.testing.assert_close(done.target, reader(IDS).detach(), **CLOSE)


def test_the_gradient_at_other_values(reader: Reader) -> None:
    """The model goes on from the value that was given, and its own embeddings are not written to."""
    before = reader.words.weight.clone()
    other = normal(2, 3, 4, seed=7)
    kept = other.clone()
    done = _run(reader, IDS, change=lambda leaf, number: rows_of(leaf, other))
    found = done.collected(lambda _, value, grad: grad)["ids"]
    torch.testing.assert_close(found, _expected(reader, other).sum(-1), **CLOSE)
    torch.testing.assert_close(done.target, reader.read(other.clone()), **CLOSE)
    assert torch.equal(other, kept)
    assert torch.equal(before, reader.words.weight)


def test_leaves_are_numbered_in_the_order_of_their_lookup() -> None:
    one, two = nn.Embedding(9, 4), nn.Embedding(9, 2)
    seen: list[tuple[int, int]] = []

    def change(leaf: Leaf, number: int) -> Tensor:
        seen.append((number, leaf.tensor.shape[-1]))
        return leaf.tensor

    run = lambda i: one(i["ids"]).sum((1, 2)) + two(i["ids"]).sum((1, 2))
    gradients(run, Batch.of({"ids": IDS}, "ids"), target=lambda y: y, change=change)
    assert seen == [(0, 4), (1, 2)]


def test_float_inputs_are_changed_and_the_users_tensor_is_not() -> None:
    x = normal(2, 5)
    kept = x.clone()

    def square(inputs: dict[str, Tensor]) -> Tensor:
        y = inputs["x"]
        y *= 3.0
        return y.square().sum(1)

    done = gradients(square, Batch.of({"x": x}, "x"), target=lambda y: y, change=lambda leaf, _: leaf.tensor / 2)
    torch.testing.assert_close(done.grads[0], 9 * x, **CLOSE)
    assert torch.equal(x, kept)
    assert not x.requires_grad


@pytest.mark.parametrize("style", ["pre", "post", "llama"])
def test_a_transformer_block_has_its_own_gradient(style: str) -> None:
    block, x = seeded(Block(style)), normal(2, 5, 8)
    done = gradients(lambda i: block(i["x"]), Batch.of({"x": x}, "x"), target=lambda y: y.square().sum((1, 2)))
    x = x.requires_grad_()
    (expected,) = torch.autograd.grad(block(x).square().sum(), x)
    torch.testing.assert_close(done.grads[0], expected, **CLOSE)
    assert all(p.grad is None and p.requires_grad for p in block.parameters())


def test_values_of_the_leaves_and_places_are_inverse(reader: Reader) -> None:
    (value,) = leaves_of(lambda i: reader(i["ids"]), Batch.of({"ids": IDS}, "ids"))
    leaf = _run(reader, IDS).leaves[0]
    placed = by_place(leaf, value, IDS)
    torch.testing.assert_close(placed, reader.words(IDS).detach(), **CLOSE)
    assert torch.equal(rows_of(leaf, placed), value)


def test_a_gradient_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(NumericsError, match="not finite"):
        gradients(lambda i: i["x"].sqrt().sum(1), Batch.of({"x": torch.zeros(1, 2)}, "x"), target=lambda y: y)


def test_a_model_without_a_lookup_is_an_error() -> None:
    with pytest.raises(ModelError, match="never looked"):
        gradients(lambda i: torch.ones(2), Batch.of({"ids": IDS}, "ids"), target=lambda y: y)
