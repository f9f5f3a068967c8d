"""The audit weighs every call and names what leaks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.core.helpers import explain, normal, summed
from tests.core.models import Block, seeded
from whence.core.batch import Batch
from whence.core.call import Call
from whence.core.recipe import Recipe, recipes
from whence.core.weighing import weighed


def weigh(model: nn.Module, x: Tensor, recipe: Recipe) -> tuple[Any, dict[tuple[str, str], float]]:
    return weighed(lambda i: model(i["x"]), Batch.of({"x": x}, "x"), summed, recipe, model)


@pytest.mark.parametrize("style", ["pre", "post", "llama"])
def test_nothing_leaks_under_any_preset(style: str, preset: str) -> None:
    model = seeded(Block(style))
    _, leaks = weigh(model, normal(2, 5, 8), recipes[preset])
    assert leaks
    assert max(map(abs, leaks.values())) < 1e-9  # amounts of size 1e0 to 1e2 in float64


def test_the_scores_are_those_of_an_ordinary_propagation(preset: str) -> None:
    model, x = seeded(Block("llama")), normal(2, 5, 8)
    done, _ = weigh(model, x, recipes[preset])
    torch.testing.assert_close(done.relevance["x"], explain(model, x, preset).relevance["x"], rtol=1e-10, atol=1e-10)


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = F.layer_norm(x, (4,))
        y += 1.0
        z = F.silu(y.flip(1)) * y
        z *= 2.0
        z[:, 0] = 0.5
        return F.relu(z, inplace=True)


def test_in_place_operations_are_no_leaks(preset: str) -> None:
    _, leaks = weigh(InPlace(), normal(2, 4), recipes[preset])
    assert max(map(abs, leaks.values())) < 1e-9


class Leaky(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def test_a_leak_has_the_name_of_its_function_and_layer() -> None:
    def forgetful(call: Call) -> Tensor:
        return call.run() * 0.5 + call.run().detach() * 0.5  # half of it goes nowhere

    model = seeded(Leaky())
    x = normal(2, 4)
    done, leaks = weigh(model, x, recipes["exact"].but(rules={"tanh": forgetful}))
    worst = max(leaks, key=lambda key: abs(leaks[key]))
    assert worst == ("tanh", "inner.1")
    error = float((done.inputs + sum(done.sinks.values()) - done.target).sum())
    assert leaks[worst] == pytest.approx(-error, rel=1e-9)
    assert all(abs(leak) < 1e-9 for key, leak in leaks.items() if key != worst)


def test_functions_without_a_rule_are_measured_not_leaked() -> None:
    class Unruled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.special.i0(F.gelu(x))

    done, leaks = weigh(Unruled(), normal(2, 4), recipes["exact"])
    assert done.unruled == {"special_i0": 1}
    assert max(map(abs, leaks.values()), default=0.0) < 1e-9
