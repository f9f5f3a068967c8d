"""Functions of a model's own: activations have their slope, and torch is as it was afterwards."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tests.core.helpers import CLOSE, books, explain, normal, seed_for
from whence.errors import ModelError


class Shifted(torch.autograd.Function):
    """x³ + 2 with a gradient that is nobody's business."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3 + 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 7 * x * grad


class Mixed(torch.autograd.Function):
    """The sum of a row, at each of its places."""

    @staticmethod
    def forward(ctx, x):
        return x.sum(-1, keepdim=True).expand_as(x).contiguous()

    @staticmethod
    def backward(ctx, grad):
        return grad.sum(-1, keepdim=True).expand_as(grad)


def test_an_activation_has_its_slope() -> None:
    """f(x) = f(0) + [(f(x) - f(0)) / x] · x, and f(0) is a constant."""
    x = normal(2, 4, 6)
    done = explain(lambda x: Shifted.apply(2 * x), x)
    torch.testing.assert_close(done.relevance["x"], seed_for(x) * (2 * x) ** 3, **CLOSE)
    torch.testing.assert_close(done.sinks["constant"], (2 * seed_for(x)).sum().expand(2), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)
    assert not done.bypasses
    assert not done.unruled


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.gelu(x)

    @staticmethod
    def backward(ctx, grad):
        return torch.ops.aten.gelu_backward(grad, *ctx.saved_tensors)


@pytest.mark.parametrize(
    "block", [lambda f, x: f(2 * x), lambda f, x: f(2 * x) * x.flip(-1), lambda f, x: F.layer_norm(x + f(x), (6,))]
)
def test_it_is_what_torch_has_of_that_name(block) -> None:
    x = normal(2, 4, 6)
    own, known = explain(lambda x: block(Gelu.apply, x), x), explain(lambda x: block(F.gelu, x), x)
    torch.testing.assert_close(own.relevance["x"], known.relevance["x"], **CLOSE)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (y * grad).sum(-1, keepdim=True))


def test_shares_are_attention() -> None:
    """Rows that sum to one weigh what they multiply, as torch's own softmax does."""
    x = normal(2, 4, 6)
    own = explain(lambda x: Softmax.apply(x @ x.mT) @ x, x)
    known = explain(lambda x: (x @ x.mT).softmax(-1) @ x, x)
    torch.testing.assert_close(own.relevance["x"], known.relevance["x"], **CLOSE)
    torch.testing.assert_close(books(own), torch.zeros(2, dtype=torch.float64), **CLOSE)
    assert not own.bypasses


def test_a_part_that_runs_again_meets_the_same_rule() -> None:
    x = normal(2, 4, 6)
    part = lambda x: Shifted.apply(2 * x) * 1.0
    again = explain(lambda x: checkpoint(part, x, use_reentrant=False), x)
    torch.testing.assert_close(again.relevance["x"], explain(part, x).relevance["x"], **CLOSE)
    torch.testing.assert_close(books(again), torch.zeros(2, dtype=torch.float64), **CLOSE)


class Kernel(torch.autograd.Function):
    """The same, computed by nothing that torch sees."""

    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(np.broadcast_to(x.numpy(force=True).sum(-1, keepdims=True), x.shape).copy())

    backward = Mixed.backward


class Doubled(torch.autograd.Function):
    """Twice its input, written into it."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class InPart(torch.autograd.Function):
    """What a kernel gave, and what torch sees."""

    @staticmethod
    def forward(ctx, x):
        return Kernel.forward(ctx, x), x.mean(-1, keepdim=True)

    @staticmethod
    def backward(ctx, grad, mean):
        return Mixed.backward(ctx, grad) + mean / grad.shape[-1]


class Inmost(torch.autograd.Function):
    """A kernel in the middle of what torch sees."""

    @staticmethod
    def forward(ctx, x):
        made = torch.empty_like(x)
        made.numpy()[...] = Mixed.forward(ctx, x).detach().numpy()
        return made + x

    @staticmethod
    def backward(ctx, grad):
        return Mixed.backward(ctx, grad) + grad


class Sorted(torch.autograd.Function):
    """Two tensors in another order; one of them may be a constant."""

    @staticmethod
    def forward(ctx, x, weight, order):
        with torch.no_grad():
            return x[:, order] * weight[order, None], weight[order]

    @staticmethod
    def backward(ctx, grad, other):
        raise AssertionError("not asked")


class Reversible(torch.autograd.Function):
    """x plus its products with itself, with a backward pass that is for training alone."""

    @staticmethod
    def forward(ctx, x, weight):
        with torch.no_grad():
            y = x + F.gelu((x @ x.mT) @ (x * weight))
        ctx.save_for_backward(y.detach())
        ctx.training = ctx.needs_input_grad[0]
        return y

    @staticmethod
    def backward(ctx, grad):
        raise AssertionError("put the model into training mode")


def test_others_are_run_line_by_line() -> None:
    """Their rules are those of the lines, whatever their backward pass is, and whatever turns gradients off."""
    x, weight = normal(2, 4, 6), torch.nn.Parameter(normal(6, seed=3))
    own = explain(lambda x: Reversible.apply(2 * x, weight) * 1.0, x)
    known = explain(lambda x: 2 * x + F.gelu((4 * x @ x.mT) @ (2 * x * weight)), x)
    torch.testing.assert_close(own.relevance["x"], known.relevance["x"], **CLOSE)
    torch.testing.assert_close(books(own), torch.zeros(2, dtype=torch.float64), **CLOSE)
    assert not own.bypasses
    assert not explain(lambda x: Mixed.apply(2 * x) * 1.0, x).bypasses


def test_a_backward_pass_that_fails_is_named() -> None:
    with pytest.raises(ModelError, match=r"Reversible .* training mode .*method='lrp'"):
        explain(lambda x: Reversible.apply(x, 1.0), normal(2, 4, 6), "gi")


@torch.jit.script
def squashed(x: Tensor, strength: float = 3.0):
    return x.div(1 + strength * x.pow(2))


def test_what_is_compiled_is_run_in_python() -> None:
    x, call = normal(2, 4, 6), torch.jit.ScriptFunction.__call__
    own = explain(lambda x: squashed(2 * x), x)
    known = explain(lambda x: (2 * x).div(1 + 3.0 * (2 * x).pow(2)), x)
    torch.testing.assert_close(own.relevance["x"], known.relevance["x"], **CLOSE)
    assert not own.bypasses
    assert torch.jit.ScriptFunction.__call__ is call


@pytest.mark.parametrize(("function", "recipe"), [(Kernel, "exact"), (Shifted, "gi")])
def test_others_keep_their_gradient_and_are_named(function, recipe) -> None:
    x = normal(2, 4, 6)
    done = explain(lambda x: function.apply(2 * x) * 1.0, x, recipe)
    leaf = x.clone().requires_grad_()
    (seed_for(x) * function.apply(2 * leaf)).sum().backward()
    torch.testing.assert_close(done.relevance["x"], x * leaf.grad, **CLOSE)
    assert done.bypasses == (function.__name__,)


def test_what_writes_into_its_input_runs_once() -> None:
    x = normal(2, 4, 6)
    done = explain(lambda x: Doubled.apply(3 * x) * 1.0, x)
    torch.testing.assert_close(done.target, (seed_for(x) * 6 * x).double().sum((1, 2)), **CLOSE)
    torch.testing.assert_close(done.relevance["x"], seed_for(x) * 6 * x, **CLOSE)


def test_a_kernel_beside_what_torch_sees_is_no_constant() -> None:
    x = normal(2, 4, 6)
    done = explain(lambda x: sum(InPart.apply(2 * x)), x)
    known = explain(lambda x: Mixed.apply(2 * x) + (2 * x).mean(-1, keepdim=True), x)
    torch.testing.assert_close(done.relevance["x"], known.relevance["x"], **CLOSE)
    assert done.bypasses == ("InPart",)


def test_a_kernel_in_the_middle_is_no_constant_either() -> None:
    x = normal(2, 4, 6)
    done = explain(lambda x: Inmost.apply(2 * x) * 1.0, x)
    known = explain(lambda x: Mixed.apply(2 * x) + 2 * x, x)
    torch.testing.assert_close(done.relevance["x"], known.relevance["x"], **CLOSE)
    assert done.bypasses == ("Inmost",)


def test_what_torch_makes_of_constants_is_one() -> None:
    x, weight, order = normal(2, 4, 6), normal(4, seed=5), torch.tensor([2, 0, 3, 1])
    own = explain(lambda x: sum(made.sum() for made in Sorted.apply(2 * x, weight, order)) * x, x)
    known = explain(lambda x: ((2 * x[:, order] * weight[order, None]).sum() + weight.sum()) * x, x)
    torch.testing.assert_close(own.relevance["x"], known.relevance["x"], **CLOSE)
    assert not own.bypasses


def test_torch_is_as_it_was() -> None:
    before = torch.autograd.Function.__dict__["apply"]
    x = normal(2, 4, 6)
    explain(lambda x: Shifted.apply(x), x)
    assert torch.autograd.Function.__dict__["apply"] is before

    def fails(x: Tensor) -> Tensor:
        raise KeyError("on the way")

    with pytest.raises(KeyError, match="on the way"):
        explain(fails, x)
    assert torch.autograd.Function.__dict__["apply"] is before


def test_other_threads_notice_nothing() -> None:
    """While one explains, another trains: its functions have their own gradients."""
    x, found = normal(2, 4, 6), []

    def trains() -> None:
        leaf = x.clone().requires_grad_()
        Shifted.apply(leaf).sum().backward()
        found.append(leaf.grad)

    def meanwhile(x: Tensor) -> Tensor:
        thread = threading.Thread(target=trains)
        thread.start()
        thread.join()
        return Shifted.apply(x)

    explain(meanwhile, x)
    torch.testing.assert_close(found[0], 7 * x, **CLOSE)
