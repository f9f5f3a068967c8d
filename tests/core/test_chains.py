"""Steps that are gone back over at once: the same relevance, and fewer nodes on the way."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from torch import Tensor

import whence
from tests.core.helpers import normal
from whence.core import chains
from whence.core.kernels import triton_kernels
from zoo.build import build

FAMILIES = ["llama", "qwen3", "gemma2", "t5", "mixtral", "gpt_neox", "modernbert", "olmo2", "bert"]


def nodes(model: torch.nn.Module, inputs: dict[str, Tensor], monkeypatch, method: str):
    """An explanation with chains, and how many of them there were."""
    found = []
    for kind in (chains._Scaled, chains._Rotated):
        monkeypatch.setattr(
            kind, "forward", staticmethod(lambda *args, of=kind, was=kind.forward: found.append(of) or was(*args))
        )
    monkeypatch.setattr(chains, "DEVICES", ("cpu",))
    return explained(model, inputs, method), found


def explained(model: torch.nn.Module, inputs: dict[str, Tensor], method: str):
    target = lambda outputs: outputs.logits.flatten(1)[:, 1]
    return whence.explain(model, inputs, method, target, receipt="full")


@pytest.mark.parametrize("method", ["exact", "attn_lrp", "gi"])
@pytest.mark.parametrize("name", FAMILIES)
def test_chains_change_nothing(name, method, monkeypatch):
    made = build("seq2seq-lm" if name == "t5" else "sequence-classification", name)
    plain = explained(made.model, dict(made.inputs), method)
    short, found = nodes(made.model, dict(made.inputs), monkeypatch, method)
    for a, b in zip(plain, short, strict=True):
        np.testing.assert_allclose(b.scores, a.scores, atol=1e-5 * max(1, np.abs(a.scores).max()))
        for kind, amount in a.conservation.sinks.items():
            assert b.conservation.sinks.get(kind, 0) == pytest.approx(amount, abs=1e-4 * a.conservation.scale)
    rotates = name in ("llama", "qwen3", "gemma2", "mixtral", "gpt_neox", "modernbert", "olmo2")
    assert (chains._Rotated in found) == rotates
    if name in ("llama", "qwen3", "t5") and method != "gi":
        assert chains._Scaled in found


def test_what_was_written_into_is_no_chain(monkeypatch):
    """x changes between two steps: the second is not the first one's any more."""
    monkeypatch.setattr(chains, "DEVICES", ("cpu",))

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = (2 * x).double()
            y.mul_(3)
            half = y * torch.tensor([1.0, 2, 3, 4])
            return (half.float() * torch.ones(1, 3, 1)).sum((1, 2))[:, None]

    x = normal(1, 3, 4, seed=0)
    exp = whence.explain(Model().eval(), {"x": x}, "exact", 0)
    wanted = (6 * x * torch.tensor([1.0, 2, 3, 4])).sum(-1)[0]
    np.testing.assert_allclose(exp.scores.reshape(3, -1).sum(-1), wanted, rtol=1e-5)


def test_a_mark_keeps_nothing():
    """A cast that autograd keeps does not keep what was cast."""
    x = normal(3, 4, seed=0).requires_grad_() * 2
    y = chains._mark(x.half(), chains.Scaled(x))
    found = chains._chain(y) is not None
    assert found
    kept = weakref.ref(x)
    del x
    assert kept() is None
    assert chains._chain(y) is None


@pytest.mark.parametrize("shape", [(2, 5, 24), (3, 4, 2, 700), (1, 1, 5000)])
@pytest.mark.parametrize("factors", ["row", "column", "both"])
def test_the_kernel_of_factors(shape, factors):
    kernels = triton_kernels("triton_chain")
    if kernels is None:
        pytest.skip("Triton is not installed")
    grad = normal(*shape, seed=1, dtype=torch.float16)
    row = normal(*shape[:-1], 1, seed=2) if factors != "column" else None
    column = normal(shape[-1], seed=3, dtype=torch.float16) if factors != "row" else None
    wanted = grad.double() * (1 if row is None else row) * (1 if column is None else column)
    found = kernels.scaled(grad, row, column, torch.float16)
    torch.testing.assert_close(found.double(), wanted, rtol=2e-3, atol=1e-3)
    assert kernels.takes(grad)
    assert not kernels.takes(grad.double())


@pytest.mark.parametrize("size", [8, 12, 128])
@pytest.mark.parametrize("alike", [True, False])
def test_the_kernel_of_rotations(size, alike):
    """Against autograd, with heads and tokens in the order in which a projection leaves them."""
    kernels = triton_kernels("triton_chain")
    if kernels is None:
        pytest.skip("Triton is not installed")
    x = normal(2, 7, 3, size, seed=1).double().transpose(1, 2).requires_grad_()
    cos, sin = (normal(1 if alike else 2, 1, 7, size, seed=n) for n in (2, 3))
    first, second = x.chunk(2, -1)
    out = x * cos + torch.cat((-second, first), -1) * sin
    grad = normal(2, 3, 7, size, seed=4)
    (wanted,) = torch.autograd.grad(out, x, grad.double())
    found = torch.empty_like(x, dtype=torch.float32)
    kernels.rotated(grad, cos, sin, found)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    assert found.stride() == x.stride()
