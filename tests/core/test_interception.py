"""The mode: in-place operations, parameters, user's rules, reports, and everything as it was afterwards."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

from tests.core.helpers import CLOSE, PRESETS, books, explain, explain_ids, normal, reference, seed_for
from tests.core.models import Block, Experts, seeded
from whence.core.call import Call
from whence.core.recipe import recipes

ZERO = torch.zeros(2, dtype=torch.float64)

# -- in-place operations -------------------------------------------------------------------------------------


def scaled_leaf(x: Tensor) -> Tensor:
    x *= 3.0
    return x


def summed_embeddings(x: Tensor) -> Tensor:
    y = F.linear(x, normal(4, 4, seed=1), normal(4, seed=2))
    y += normal(3, 4, seed=3)
    y += normal(1, 4, seed=4)
    return y


def changed_view(x: Tensor) -> Tensor:
    y = x * 2.0
    view = y[:, 1:]
    view += normal(2, 4, seed=3)
    view.mul_(0.5)
    return y


def activated_in_place(x: Tensor) -> Tensor:
    y = F.linear(x, normal(4, 4, seed=1), normal(4, seed=2))
    F.relu_(y)
    z = y - 0.3
    return z.div_(2.0).sub_(1.0)


def changed_result(x: Tensor) -> Tensor:
    """What nonlinear functions return may be written into, and what they were given too."""
    y = F.layer_norm(x, (4,), normal(4, seed=1), normal(4, seed=2))
    y += normal(3, 4, seed=3)
    z = F.gelu(y)
    z *= 2.0
    a = F.scaled_dot_product_attention(z, z, z)
    a += z
    t = a * 1.0
    gate = torch.tanh(t) + torch.sigmoid(t)
    t -= 0.5
    r = F.rms_norm(gate + t, (4,), eps=1e-3)
    r[:, 0] = 0.3
    return F.relu(F.group_norm(r, 1, eps=1e-3), inplace=True)


def out_of_place_twin(x: Tensor) -> Tensor:
    y = F.layer_norm(x, (4,), normal(4, seed=1), normal(4, seed=2)) + normal(3, 4, seed=3)
    z = F.gelu(y) * 2.0
    a = F.scaled_dot_product_attention(z, z, z) + z
    r = F.rms_norm(torch.tanh(a) + torch.sigmoid(a) + (a - 0.5), (4,), eps=1e-3)
    first = torch.tensor([True, False, False])[:, None]
    return F.relu(F.group_norm(torch.where(first, 0.3, r), 1, eps=1e-3))


def test_results_and_arguments_of_nonlinear_functions_may_be_changed_in_place(preset: str) -> None:
    x = normal(2, 3, 4)
    done, twin = explain(changed_result, x, preset), explain(out_of_place_twin, x, preset)
    torch.testing.assert_close(done.relevance["x"], twin.relevance["x"], **CLOSE)
    torch.testing.assert_close(books(done), ZERO, **CLOSE)
    assert set(done.sinks) == set(twin.sinks)
    for kind, amount in twin.sinks.items():
        torch.testing.assert_close(done.sinks[kind], amount, **CLOSE)


@pytest.mark.parametrize("f", [scaled_leaf, summed_embeddings, changed_view, activated_in_place])
def test_in_place_operations(f: Any, preset: str) -> None:
    x = normal(2, 3, 4)
    before = x.clone()
    done = explain(f, x, preset)
    torch.testing.assert_close(done.relevance["x"], reference(lambda x: f(x * 1.0), x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO, **CLOSE)
    assert torch.equal(x, before)  # the user's input is not written to


def test_a_looked_up_embedding_may_be_scaled_in_place() -> None:
    table = nn.Embedding(9, 4).double()

    def run(ids: Tensor) -> Tensor:
        y = table(ids)
        y *= 2.0
        y += 1.0
        return y

    ids = torch.tensor([[1, 2, 2]])
    done = explain_ids(run, ids)
    expected = (table(ids) * 2 * seed_for(done.outputs)).sum(-1)
    torch.testing.assert_close(done.relevance["ids"], expected.detach(), **CLOSE)
    torch.testing.assert_close(done.inputs + sum(done.sinks.values()), done.target, **CLOSE)


def test_in_place_nonlinearities_follow_their_rule() -> None:
    x = normal(2, 4)
    for change, value in (("tanh_", torch.tanh), ("exp_", torch.expm1), ("sigmoid_", lambda x: torch.sigmoid(x) - 0.5)):
        done = explain(lambda x, change=change: getattr(x * 1.0, change)(), x)
        torch.testing.assert_close(done.relevance["x"], value(x) * seed_for(x), **CLOSE)


# -- recomputation -------------------------------------------------------------------------------------------


class Stack(nn.Module):
    def __init__(self, recompute: bool | None, style: str = "llama"):
        super().__init__()
        self.embed, self.head = nn.Linear(8, 8), nn.Linear(8, 3)
        self.blocks = nn.ModuleList(Block(style) for _ in range(2))
        self.recompute = recompute

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x) if self.recompute is None else checkpoint(block, x, use_reentrant=self.recompute)
        return self.head(x.mean(1))


@pytest.mark.parametrize("style", ["pre", "llama"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_nothing(reentrant: bool, style: str, preset: str) -> None:
    plain, frugal = seeded(Stack(None, style)), seeded(Stack(reentrant, style))
    x = normal(2, 5, 8)
    one, two = explain(plain, x, preset), explain(frugal, x, preset)
    assert torch.equal(one.relevance["x"], two.relevance["x"])
    assert all(p.grad is None for p in frugal.parameters())


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_keeps_the_books(reentrant: bool) -> None:
    plain, frugal = seeded(Stack(None)), seeded(Stack(reentrant))
    x = normal(2, 5, 8)
    one, two = explain(plain, x, "exact"), explain(frugal, x, "exact")
    assert torch.equal(one.relevance["x"], two.relevance["x"])
    assert two.ledger is not None
    # A reentrant checkpoint hands its segment new tensors that nothing is known of: the batch is booked as a whole.
    assert two.ledger.is_split is not reentrant
    kept = sum(float(a.sum()) for book in (two.ledger.amounts, two.ledger.unsplit) for a in book.values())
    assert float(two.inputs.sum()) + kept == pytest.approx(float(two.target.sum()), rel=1e-10)


# -- nothing is changed --------------------------------------------------------------------------------------


class Fails(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block("pre")
        self.fails = True

    def forward(self, x: Tensor) -> Tensor:
        x = self.block(x)
        if self.fails:
            raise RuntimeError("in the middle of it")
        return x


def hooks(model: nn.Module) -> list[int]:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [len(getattr(m, kind)) for m in model.modules() for kind in kinds]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_model_and_torch_are_as_they_were(fails: bool, frozen: bool, preset: str) -> None:
    model = seeded(Fails())
    model.fails = fails
    model.block.norm1.requires_grad_(not frozen)
    x = normal(2, 5, 8)
    functions = (F.layer_norm, F.softmax, F.linear, F.scaled_dot_product_attention, torch.matmul, Tensor.__mul__)
    state = {n: t.clone() for n, t in model.state_dict().items()}
    wants, before = [p.requires_grad for p in model.parameters()], dict(vars(model))
    if fails:
        with pytest.raises(RuntimeError, match="in the middle"):
            explain(model, x, preset)
    else:
        explain(model, x, preset)
    assert [p.requires_grad for p in model.parameters()] == wants
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(t, state[n]) for n, t in model.state_dict().items())
    assert sum(hooks(model)) == 0
    assert vars(model).keys() == before.keys()
    assert not any(hasattr(p, mark) for p in model.parameters() for mark in ("_whence_role", "_whence_origin"))
    now = (F.layer_norm, F.softmax, F.linear, F.scaled_dot_product_attention, torch.matmul, Tensor.__mul__)
    assert all(a is b for a, b in zip(functions, now, strict=True))
    assert not _get_current_function_mode_stack()
    assert torch.is_grad_enabled()
    assert not x.requires_grad
    assert x.grad is None


def test_the_model_still_trains_afterwards() -> None:
    model = seeded(Block("llama"))
    x = normal(2, 5, 8)
    model(x).sum().backward()
    before = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    explain(model, x)
    model(x).sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad])
def test_gradients_need_not_be_enabled_outside(context: Any, preset: str) -> None:
    model, x = seeded(Block("post")), normal(2, 5, 8)
    with context():
        inside = explain(model, x, preset).relevance["x"]
    assert torch.equal(inside, explain(model, x, preset).relevance["x"])


def test_threads_with_other_models_and_recipes_do_not_meet() -> None:
    jobs = [(seeded(Block(style), n), name) for n, style in enumerate(("pre", "post", "llama")) for name in PRESETS]
    x = normal(2, 5, 8)
    serial = [explain(model, x, name) for model, name in jobs]
    together = threading.Barrier(4)

    def work(part: int) -> list[tuple[int, Any]]:
        together.wait()
        return [(n, explain(*(jobs[n][0], x, jobs[n][1]))) for n in range(part, len(jobs), 4)]

    with ThreadPoolExecutor(4) as pool:
        parallel = dict(pair for part in pool.map(work, range(4)) for pair in part)
    for n, alone in enumerate(serial):
        assert torch.equal(parallel[n].relevance["x"], alone.relevance["x"])
        assert all(torch.equal(parallel[n].sinks[kind], amount) for kind, amount in alone.sinks.items())


def test_one_model_may_be_explained_by_several_threads() -> None:
    model, inputs = seeded(Experts()), [normal(1, 4, 8, seed=n) for n in range(8)]
    serial = [explain(model, x).relevance["x"] for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(lambda x: explain(model, x).relevance["x"], inputs))
    assert all(torch.equal(a, b) for a, b in zip(serial, parallel, strict=True))


# -- rules of the user, and functions without one ------------------------------------------------------------


def passed_through(call: Call) -> Tensor:
    x = call.args[0]
    return x + (call.run() - x).detach()


@pytest.mark.parametrize("key", [torch.sin, torch.Tensor.sin, "sin"])
def test_a_rule_of_the_user_wins(key: Any) -> None:
    x = normal(2, 5)
    done = explain(torch.sin, x, recipes["exact"].but(rules={key: passed_through}))
    torch.testing.assert_close(done.relevance["x"], x * seed_for(x), **CLOSE)
    torch.testing.assert_close(done.outputs, torch.sin(x), **CLOSE)


@pytest.mark.parametrize("key", [F.layer_norm, "layer_norm"])
def test_a_rule_of_the_user_wins_inside_modules(key: Any) -> None:
    model, x = nn.LayerNorm(5).double(), normal(2, 5)
    done = explain(model, x, recipes["exact"].but(rules={key: passed_through}))
    torch.testing.assert_close(done.relevance["x"], x * seed_for(x), **CLOSE)


def test_a_rule_for_a_function_that_has_none() -> None:
    x = normal(2, 5)
    rule = lambda call: call.args[0] * (call.run() / call.args[0]).detach()
    done = explain(torch.special.i0, x, recipes["exact"].but(rules={torch.special.i0: rule}))
    assert not done.unruled
    torch.testing.assert_close(done.inputs, done.target, **CLOSE)


def test_functions_without_a_rule_are_reported_and_measured() -> None:
    x = normal(2, 5)
    done = explain(lambda x: torch.special.i0(x) + torch.special.i0(2 * x) + torch.special.bessel_j0(x.detach()), x)
    assert done.unruled == {"special_i0": 2}
    assert "unruled" in done.sinks
    torch.testing.assert_close(books(done), ZERO, **CLOSE)
    torch.testing.assert_close(
        done.relevance["x"], reference(lambda x: torch.special.i0(x) + torch.special.i0(2 * x), x), **CLOSE
    )


class Cube(torch.autograd.Function):
    """A function of the model's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 3 * ctx.saved_tensors[0] ** 2 * grad


def test_custom_autograd_functions_are_named() -> None:
    taken = Cube.apply  # before anybody looks
    done = explain(lambda x: F.gelu(taken(F.layer_norm(x, (5,)))), normal(2, 5))
    assert done.bypasses == ("Cube",)
    assert explain(lambda x: F.gelu(F.layer_norm(x, (5,))), normal(2, 5)).bypasses == ()
    assert explain(seeded(Block("llama")), normal(2, 5, 8), "gim").bypasses == ()


def test_parameters_take_no_part_in_the_backward_pass() -> None:
    weight = nn.Parameter(normal(4, 4))
    seen: list[bool] = []

    def run(x: Tensor) -> Tensor:
        product = weight * 2 + weight.T
        seen.append(product.requires_grad)
        return x @ product

    explain(run, normal(2, 4))
    assert seen == [False]


def test_integer_and_boolean_tensors_pass() -> None:
    x = normal(2, 5)
    done = explain(lambda x: x[:, (x[0] > 0).nonzero()[:, 0]] if x.sum() > -1e9 else x, x)
    torch.testing.assert_close(done.relevance["x"], torch.where(x[0] > 0, x, 0.0) * _spread(x), **CLOSE)


def _spread(x: Tensor) -> Tensor:
    """The weights of the target, at the columns that were kept."""
    kept = (x[0] > 0).nonzero()[:, 0]
    weight = torch.zeros(x.shape[1], dtype=torch.float64)
    weight[kept] = normal(len(kept), seed=99)
    return weight
