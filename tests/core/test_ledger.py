"""The books: entries, per-example amounts, layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.core.helpers import CLOSE, PRESETS, books, explain, explain_ids, normal
from tests.core.models import Block, seeded
from whence.core.call import Table
from whence.core.layout import Lane, mark_layout
from whence.core.ledger import Entry, Ledger, NoLedger
from whence.core.recipe import recipes

FIRST = (Lane(0, 1, 2),)


def laid_out(x: Tensor) -> Tensor:
    """A leaf of two examples."""
    mark_layout(x.requires_grad_(), FIRST)
    return x


def by_kind(ledger: Ledger) -> dict[str, torch.Tensor]:
    return ledger.read(ledger.packed())


def test_a_constant_keeps_its_value_times_the_gradient() -> None:
    ledger = Ledger(examples=2)
    x = normal(2, 3).requires_grad_()
    out = x * 2
    constant = normal(3, seed=1)
    ledger.constant("bias", "linear", out, constant, FIRST)
    weight = normal(2, 3, seed=2)
    (out * weight).sum().backward()
    torch.testing.assert_close(by_kind(ledger)["bias"], (weight * constant).sum(1), **CLOSE)
    assert list(ledger.amounts) == [Entry("bias", "linear", "")]


def test_numbers_are_booked_in_the_precision_of_the_tensor() -> None:
    ledger = Ledger(examples=1)
    out = normal(1, 3).requires_grad_() * 1
    ledger.constant("constant", "add", out, 0.1)
    out.sum().backward()
    assert float(by_kind(ledger)["constant"]) == pytest.approx(0.3, rel=1e-15)  # three roundings of float64


def test_measuring_books_what_comes_in_less_what_goes_out() -> None:
    ledger = Ledger(examples=2)
    x = laid_out(normal(2, 3))
    y = ledger.measure("activation", "tanh", [x], torch.tanh, lambda out: FIRST)
    y.sum().backward()
    taken = (torch.tanh(x) - x * (1 - torch.tanh(x) ** 2)).sum(1)
    torch.testing.assert_close(by_kind(ledger)["activation"], taken.detach(), **CLOSE)


def test_measuring_leaves_the_value_and_the_gradient_alone() -> None:
    x = normal(2, 3).requires_grad_()
    measured = Ledger(2).measure("activation", "tanh", [x], torch.tanh)
    assert torch.equal(measured, NoLedger().measure("activation", "tanh", [x], torch.tanh))
    (grad,) = torch.autograd.grad(measured.sum(), x)
    torch.testing.assert_close(grad, (1 - torch.tanh(x) ** 2).detach(), **CLOSE)


def test_measuring_a_function_with_several_results_keeps_the_kind_of_container() -> None:
    x = laid_out(normal(2, 4))
    ledger = Ledger(2)
    out = ledger.measure("unruled", "f", [x], lambda x: (x**2, [1], x.argmax(-1)), lambda out: FIRST)
    assert type(out) is tuple
    out[0].sum().backward()
    torch.testing.assert_close(by_kind(ledger)["unruled"], -(x**2).sum(1).detach(), **CLOSE)


def test_a_closed_ledger_books_nothing() -> None:
    ledger = Ledger(1)
    ledger.open = False
    x = normal(1, 3).requires_grad_()
    out = ledger.measure("activation", "tanh", [x], torch.tanh)
    ledger.constant("bias", "linear", out, 1.0)
    out.sum().backward()
    assert not by_kind(ledger)


@pytest.mark.parametrize(
    ("shape", "axis", "spread"),
    [
        ((3, 4), Lane(0, 1, 3), lambda t: t),
        ((3, 5, 4), Lane(0, 1, 3), lambda t: t),
        ((5, 3, 4), Lane(1, 1, 3), lambda t: t.transpose(0, 1)),  # tokens first
        ((3, 3, 4), Lane(1, 1, 3), lambda t: t.transpose(0, 1)),  # tokens first, and as many as examples
        ((6, 5, 4), Lane(0, 2, 3), lambda t: t.view(3, 2, 5, 4)),  # heads folded into the batch
        ((6, 4), Lane(0, 1, 3), lambda t: t.view(2, 3, 4).transpose(0, 1)),  # tokens and examples as one axis
    ],
)
def test_amounts_go_to_the_example_that_the_layout_names(shape: tuple[int, ...], axis: Lane, spread: Any) -> None:
    ledger = Ledger(examples=3)
    out = normal(*shape).requires_grad_() * 1
    constant = normal(*shape, seed=1)
    ledger.constant("constant", "add", out, constant, (axis,))
    out.sum().backward()
    torch.testing.assert_close(by_kind(ledger)["constant"], spread(constant).flatten(1).sum(1), **CLOSE)
    assert ledger.is_split


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 4), Lane(0, 1, 3)), ((5, 3, 4), Lane(1, 1, 3)), ((6, 5, 4), Lane(0, 2, 3)), ((6, 4), Lane(0, 1, 3))],
)
def test_a_bias_meets_gradients_that_were_added_up(
    shape: tuple[int, ...], axis: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    grad, bias = normal(*shape, seed=1), normal(4, seed=2)

    def booked() -> torch.Tensor:
        ledger = Ledger(examples=3)
        out = normal(*shape).requires_grad_() * 1
        ledger.constant("bias", "linear", out, bias, (axis,))
        out.backward(grad)
        return by_kind(ledger)["bias"]

    one_by_one = booked()
    monkeypatch.setattr("whence.core.ledger.AT_ONCE", ("cpu",))
    torch.testing.assert_close(booked(), one_by_one, **CLOSE)


def test_an_index_that_chooses_few_vectors_chooses_no_positions() -> None:
    few, many = torch.tensor([[0, 1, 1, 0, 1, 0]]), torch.arange(6)[None]
    for index, kind in ((few, "constant"), (many, "position")):
        ledger = Ledger(examples=1)
        out = normal(1, 6, 4).requires_grad_() * 1
        ledger.constant("constant", "add", out, normal(6, 4, seed=1), None, Table(index))
        out.sum().backward()
        assert set(by_kind(ledger)) == {kind}


def test_amounts_that_cannot_be_split_are_kept_apart() -> None:
    ledger = Ledger(examples=3)
    out = normal(4, 7).requires_grad_() * 1
    ledger.constant("constant", "add", out, 1.0)
    out.sum().backward()
    assert not by_kind(ledger)
    assert not ledger.is_split
    assert float(sum(ledger.unsplit.values())) == pytest.approx(28)


def test_infinite_constants_with_no_gradient_are_nothing() -> None:
    ledger = Ledger(1)
    out = normal(1, 3).requires_grad_() * 1
    ledger.constant("constant", "add", out, torch.tensor([0.0, -torch.inf, 1.0], dtype=torch.float64))
    (out * torch.tensor([1.0, 0.0, 1.0])).sum().backward()
    assert by_kind(ledger)["constant"].tolist() == [1.0]


def test_half_precision_is_booked_in_float32() -> None:
    """4096 biases of 1/3: a sum in bf16 would stop at 1 or so ulp of 256."""
    bias = torch.full((4096,), 1 / 3, dtype=torch.bfloat16)
    done = explain(lambda x: x + bias, torch.ones(1, 4096, dtype=torch.bfloat16), target=lambda y: y.float().sum(1))
    assert float(done.sinks["constant"]) == pytest.approx(4096 * float(bias[0]), rel=1e-6)  # float32 has 7 digits
    assert float(done.inputs) == 4096
    assert done.relevance["x"].dtype == torch.float32


def test_channels_of_half_precision_are_summed_in_float32() -> None:
    table = torch.full((4, 3000), 1.0, dtype=torch.bfloat16)
    table[:, 0] = 1 / 3
    done = explain_ids(
        lambda ids: F.embedding(ids, table), torch.tensor([[1, 2]]), target=lambda y: y.float().sum((1, 2))
    )
    each = 2999 + float(table[0, 0])  # bf16 knows no number between 2992 and 3008
    torch.testing.assert_close(done.relevance["ids"], torch.tensor([[each, each]]), rtol=1e-6, atol=0)


def test_float64_stays_float64() -> None:
    assert explain(torch.tanh, normal(1, 3)).relevance["x"].dtype == torch.float64
    done = explain_ids(lambda ids: F.embedding(ids, normal(9, 4)), torch.tensor([[1, 2]]))
    assert done.relevance["ids"].dtype == torch.float64


def test_layers_are_named_after_the_innermost_module() -> None:
    model = seeded(nn.Sequential(Block("pre"), Block("post")))
    done = explain(model, normal(2, 5, 8), "exact", modules=model)
    assert done.ledger is not None
    layers = {entry.module for entry in done.ledger.amounts}
    assert {"0.norm1", "0.attention.v", "0.attention.o", "0.mlp.0", "1.mlp.2", "1.norm2"} <= layers
    assert "" not in layers
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


def test_a_short_receipt_has_the_same_scores_and_no_sinks(preset: str) -> None:
    model = seeded(Block("llama"))
    x = normal(2, 5, 8)
    short, full = explain(model, x, preset, receipt="short"), explain(model, x, preset)
    torch.testing.assert_close(short.relevance["x"], full.relevance["x"], **CLOSE)
    assert not short.sinks
    assert short.ledger is None


@pytest.mark.parametrize("style", ["pre", "post", "llama"])
def test_receipts_of_a_batch_are_those_of_single_examples(style: str, preset: str) -> None:
    model = seeded(Block(style))
    x = normal(3, 5, 8)
    batch = explain(model, x, preset)
    for n in range(3):
        single = explain(model, x[n : n + 1], preset)
        assert set(single.sinks) == set(batch.sinks)
        torch.testing.assert_close(single.relevance["x"][0], batch.relevance["x"][n], **CLOSE)
        torch.testing.assert_close(single.target[0], batch.target[n], **CLOSE)
        for kind, amount in single.sinks.items():
            torch.testing.assert_close(amount[0], batch.sinks[kind][n], **CLOSE)


def random_net(ops: list[str], x: Tensor) -> Tensor:
    for n, op in enumerate(ops):
        width = x.shape[-1]
        if op == "linear":
            x = F.linear(x, normal(width, width, seed=n) / 2, normal(width, seed=n + 50))
        elif op == "norm":
            x = F.layer_norm(x, (width,), normal(width, seed=n), normal(width, seed=n + 50))
        elif op == "attention":
            x = x + F.scaled_dot_product_attention(x, x.flip(-1), x)
        elif op == "gate":
            x = F.silu(x.flip(-1)) * x
        elif op == "residual":
            x = x + F.gelu(x.roll(1, 1))
        elif op == "rms":
            x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        else:
            x = x + normal(*x.shape[1:], seed=n)
    return x


OPS = ("linear", "norm", "attention", "gate", "residual", "rms", "position")


@settings(max_examples=20, deadline=None)
@given(ops=st.lists(st.sampled_from(OPS), min_size=1, max_size=7), name=st.sampled_from(PRESETS))
def test_conservation_of_any_network(ops: list[str], name: str) -> None:
    """Inputs + sinks = target, because every sink is measured."""
    done = explain(lambda x: random_net(ops, x), normal(2, 3, 4), recipes[name])
    scale = 1 + max([float(done.target.abs().max()), *(float(s.abs().max()) for s in done.sinks.values())])
    assert float(books(done).abs().max()) <= 1e-9 * scale  # the largest amounts cancel; 1e-16 each, with room
    assert torch.equal(done.outputs.detach(), random_net(ops, normal(2, 3, 4)).detach()) or torch.allclose(
        done.outputs.detach(), random_net(ops, normal(2, 3, 4)), rtol=1e-9, atol=1e-9 * scale
    )
