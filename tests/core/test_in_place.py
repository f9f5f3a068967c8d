"""What a model writes in place: the value, the rules, and the books are those of the same model written plainly."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.core.helpers import CLOSE, PRESETS, books, explain, normal
from whence.core.batch import Batch
from whence.core.interception import Interception, as_it_is

X = normal(2, 3, 4)
W = normal(4, 4, seed=1)
U = normal(4, 4, seed=2)
ACTIVATIONS = [
    nn.ELU, nn.Hardswish, nn.Hardtanh, nn.ReLU6, nn.SELU, nn.CELU, nn.SiLU, nn.Mish, nn.Hardsigmoid, nn.ReLU,
    nn.LeakyReLU,
]  # fmt: skip


@pytest.mark.parametrize("kind", ACTIVATIONS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("recipe", ["gi", "exact"])
def test_an_activation_writes_its_input(kind, recipe):
    def written(x):
        h = x @ W
        return h + kind(inplace=True)(h)

    def plain(x):
        h = kind()(x @ W)
        return h + h

    made, wanted = explain(written, X, recipe), explain(plain, X, recipe)
    torch.testing.assert_close(made.target, wanted.target, **CLOSE)
    torch.testing.assert_close(made.relevance["x"], wanted.relevance["x"], **CLOSE)
    torch.testing.assert_close(books(made), torch.zeros(2, dtype=torch.float64), **CLOSE)


def _gated(x):
    return F.silu(x @ W) * (x @ U)


def _gated_in_place(x):
    return F.silu(x @ W).mul_(x @ U)


def _self_gate(x):
    h = x @ W
    return h * torch.sigmoid(h)


def _self_gate_in_place(x):
    h = x @ W
    return h.mul_(torch.sigmoid(h))


def _self_gate_cast(x):
    h = x @ W
    return h * torch.sigmoid(h.float().double()).to(h.dtype)


def _gate(x):
    return torch.tanh(x @ W) * (x @ U)


def _gate_in_place(x):
    h = x @ W
    return h.tanh_() * (x @ U)


def _moved_on(x):
    h = x @ W
    gate = torch.sigmoid(h)
    return (h + x) * gate


def _moved_on_in_place(x):
    h = x @ W
    gate = torch.sigmoid(h)
    h += x
    return h * gate


@pytest.mark.parametrize("recipe", PRESETS)
@pytest.mark.parametrize(
    ("plain", "other"),
    [
        (_gated, _gated_in_place),
        (_self_gate, _self_gate_in_place),
        (_gate, _gate_in_place),
        (_moved_on, _moved_on_in_place),
    ],
    ids=lambda f: f.__name__,
)
def test_marks_survive(plain, other, recipe):
    made, wanted = explain(other, X, recipe), explain(plain, X, recipe)
    torch.testing.assert_close(made.relevance["x"], wanted.relevance["x"], **CLOSE)


@pytest.mark.parametrize("recipe", PRESETS)
def test_a_cast_is_still_the_same_number(recipe):
    """A gate that is computed in another precision is a gate."""
    made, wanted = explain(_self_gate_cast, X, recipe), explain(_self_gate, X, recipe)
    torch.testing.assert_close(made.relevance["x"], wanted.relevance["x"], rtol=1e-5, atol=1e-5)


def test_constants_that_are_written_later_are_booked_as_they_were():
    def model(x):
        held = torch.ones(4, dtype=x.dtype)
        out = x @ W + held
        held.mul_(5)
        return out

    torch.testing.assert_close(books(explain(model, X)), torch.zeros(2, dtype=torch.float64), **CLOSE)


def test_a_thread_of_autograd_has_the_mode_and_no_stack():
    """The backward pass of a GPU runs in a thread in which nobody entered the mode."""
    mode = Interception(Batch.of({"x": X}, "x"), {}, default=as_it_is)
    found = []
    with mode:
        x = mode.prepared()["x"]

    def elsewhere() -> None:
        found.append(mode.__torch_function__(torch.add, (), (x, x)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    torch.testing.assert_close(found[0], X + X)


def test_inference_tensors_of_the_model_are_no_obstacle():
    with torch.inference_mode():
        frozen = W.clone()
    made, wanted = explain(lambda x: x @ frozen, X), explain(lambda x: x @ W, X)
    torch.testing.assert_close(made.relevance["x"], wanted.relevance["x"], **CLOSE)


def test_half_precision_slopes_are_not_biased():
    x = torch.tensor([[1.5e-3, 0.3]], dtype=torch.float16)
    done = explain(lambda x: torch.tanh(x), x, "exact", target=lambda y: y.float().sum(1))
    torch.testing.assert_close(done.relevance["x"], torch.tanh(x.float()), rtol=2e-3, atol=0)
