"""What the mode can't look into is named in the receipt; and what merely has the name of a torch function is not it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whence

X = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """x + b(f(a(x))), averaged over tokens."""

    def __init__(self, function):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.a, self.b, self.c = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 3)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator) * 0.3)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.c((x + self.b(self.function(self.a(x)))).mean(1))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def _op(name: str, factor: float):
    """An operator of somebody's own, factor · tanh."""

    @torch.library.custom_op(f"whence_tests::{name}", mutates_args=())
    def function(x: Tensor) -> Tensor:
        return factor * torch.tanh(x)

    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    function.register_autograd(
        lambda ctx, grad: grad * factor * (1 - torch.tanh(ctx.saved_tensors[0]) ** 2), setup_context=keep
    )
    return getattr(torch.ops.whence_tests, name)


def _scripted() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 16), nn.GELU())


BYPASSES = {
    "Cube": lambda: Cube.apply,
    "torch.jit": lambda: torch.jit.trace(_scripted(), X),
    "torch.vmap": lambda: torch.vmap(lambda row: F.gelu(row) * torch.sigmoid(row.sum())),
    "whence_tests::cubic": lambda: _op("cubic", 3.0),
    "whence_tests::softmax": lambda: _op("softmax", 2.0),
    "whence_tests::gelu": lambda: _op("gelu", 2.0),
}


@pytest.fixture(params=BYPASSES)
def bypass(request):
    model = Block(BYPASSES[request.param]()).eval()
    return request.param, model


@pytest.mark.filterwarnings("ignore:.*jit.*:DeprecationWarning")
def test_it_is_named_and_the_score_is_the_models_own(bypass):
    name, model = bypass
    with torch.no_grad():
        wanted = model(X)[:, 1]
    for n, exp in enumerate(whence.explain(model, {"x": X}, "exact", 1)):
        assert exp.target_score == pytest.approx(float(wanted[n]), abs=1e-5)
        assert any(name in found for found in exp.conservation.unruled)


@pytest.mark.filterwarnings("ignore:.*jit.*:DeprecationWarning")
def test_gradients_stay_what_they_are(bypass):
    _, model = bypass
    x = X.clone().requires_grad_()
    model(x)[:, 1].sum().backward()
    wanted = (x * x.grad).sum(-1).detach().numpy()
    for n, exp in enumerate(whence.explain(model, {"x": X}, "gi", 1)):
        np.testing.assert_allclose(exp.scores, wanted[n], atol=1e-5)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_parts_are_run_as_they_were_written(backend):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16))
    wanted = whence.explain(Block(plain).eval(), {"x": X}, "exact", 1)
    found = whence.explain(Block(torch.compile(plain, backend=backend)).eval(), {"x": X}, "exact", 1)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)
        assert not one.conservation.unruled


@pytest.mark.parametrize("function", [F.gelu, torch.ops.aten.gelu, nn.GELU()], ids=["functional", "aten", "module"])
def test_torch_by_any_of_its_names_has_its_rules(function):
    for exp in whence.explain(Block(function).eval(), {"x": X}, "exact", 1):
        assert not exp.conservation.unruled
        assert exp.conservation.error == pytest.approx(0, abs=1e-5)


def test_a_whole_model_has_nothing_to_name():
    for exp in whence.explain(Block(F.gelu).eval(), {"x": X}, "exact", 1):
        assert exp.conservation.unruled == ()
