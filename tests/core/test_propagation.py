"""From a target to the relevance of the inputs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.core.helpers import CLOSE, PRESETS, books, explain, explain_ids, normal, seed_for
from tests.core.models import Block, seeded
from whence.core.batch import Batch
from whence.core.propagation import propagate
from whence.core.recipe import Epsilon, Gamma, ZPlus, recipes
from whence.errors import ModelError, NumericsError

ZERO = torch.zeros(2, dtype=torch.float64)


class Classifier(nn.Module):
    """Words + positions + types, two blocks, a pooled head."""

    def __init__(self, style: str = "post"):
        super().__init__()
        self.words, self.positions = nn.Embedding(20, 8), nn.Embedding(10, 8)
        self.blocks = nn.ModuleList([Block(style, "fused"), Block(style)])
        self.head = nn.Linear(8, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        x += self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(torch.tanh(x[:, 0]))


MODELS = {style: seeded(Classifier(style)) for style in ("pre", "post", "llama")}
IDS = torch.tensor([[1, 5, 9, 2, 2], [1, 7, 7, 0, 3]])


@pytest.mark.parametrize("style", MODELS)
def test_inputs_and_sinks_make_the_target(style: str, preset: str) -> None:
    done = explain_ids(MODELS[style], IDS, preset, target=lambda y: y[:, 1])
    torch.testing.assert_close(books(done), ZERO, rtol=0, atol=1e-9)  # some hundred amounts of size 1e0 to 1e2
    torch.testing.assert_close(done.target, MODELS[style](IDS)[:, 1].detach(), **CLOSE)
    assert not done.unruled


def test_exact_loses_relevance_to_constants_alone() -> None:
    done = explain_ids(MODELS["post"], IDS, "exact", target=lambda y: y[:, 1])
    assert set(done.sinks) <= {"bias", "position", "constant"}


@pytest.mark.parametrize("style", MODELS)
def test_the_forward_value_is_unchanged(style: str, preset: str) -> None:
    done = explain_ids(MODELS[style], IDS, preset, target=lambda y: y[:, 0])
    torch.testing.assert_close(done.outputs.detach(), MODELS[style](IDS).detach(), **CLOSE)


@settings(max_examples=20, deadline=None)
@given(a=st.floats(-3, 3), b=st.floats(-3, 3), name=st.sampled_from(PRESETS), style=st.sampled_from(sorted(MODELS)))
def test_explanations_are_linear_in_the_target(a: float, b: float, name: str, style: str) -> None:
    model = MODELS[style]
    first = explain_ids(model, IDS, name, target=lambda y: y[:, 0])
    second = explain_ids(model, IDS, name, target=lambda y: y[:, 1])
    both = explain_ids(model, IDS, name, target=lambda y: a * y[:, 0] + b * y[:, 1])
    torch.testing.assert_close(
        both.relevance["ids"], a * first.relevance["ids"] + b * second.relevance["ids"], rtol=1e-9, atol=1e-9
    )
    for kind in both.sinks:
        none = torch.zeros(2, dtype=torch.float64)
        expected = a * first.sinks.get(kind, none) + b * second.sinks.get(kind, none)
        torch.testing.assert_close(both.sinks[kind], expected, rtol=1e-9, atol=1e-9)


def test_padding_that_is_masked_changes_nothing(preset: str) -> None:
    table = normal(20, 8, seed=1)

    def run(ids: Tensor) -> Tensor:
        x = F.embedding(ids, table)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=(ids != 0)[:, None, :])[:, 0]

    ids = torch.tensor([[3, 4, 5]])
    short = explain_ids(run, ids, preset)
    padded = explain_ids(run, torch.tensor([[3, 4, 5, 0, 0]]), preset)
    torch.testing.assert_close(padded.relevance["ids"][:, :3], short.relevance["ids"], **CLOSE)
    assert torch.equal(padded.relevance["ids"][:, 3:], torch.zeros(1, 2, dtype=torch.float64))


@pytest.mark.parametrize("rule", [Epsilon(0.1), Gamma(0.25), ZPlus()])
def test_books_close_under_every_rule_for_linear_layers(rule: object, preset: str) -> None:
    recipe = recipes[preset].but(linear=rule, conv=rule)
    done = explain_ids(MODELS["post"], IDS, recipe, target=lambda y: y[:, 1])
    size = 1 + max(float(s.abs().max()) for s in done.sinks.values())
    # γ and z⁺ hand on shares z/z̃ of up to 1e3 here; what they lose is measured at that size
    assert float(books(done).abs().max()) <= 1e-9 * size


def test_float_and_integer_inputs_are_explained_together() -> None:
    table = normal(20, 4, seed=1)
    pixels, ids = normal(2, 3, 4), torch.tensor([[1, 2], [3, 4]])
    done = propagate(
        lambda i: torch.cat([i["pixels"], F.embedding(i["ids"], table)], 1).sum((1, 2)),
        Batch.of({"pixels": pixels, "ids": ids, "unused": None}, "pixels", "ids"),
        target=lambda y: y,
        recipe=recipes["exact"],
    )
    torch.testing.assert_close(done.relevance["pixels"], pixels, **CLOSE)
    torch.testing.assert_close(done.relevance["ids"], table[ids].sum(-1), **CLOSE)
    torch.testing.assert_close(done.inputs, done.target, **CLOSE)


def test_a_source_that_the_target_does_not_depend_on_has_no_relevance() -> None:
    done = propagate(
        lambda i: i["x"].sum(1),
        Batch.of({"x": normal(2, 3), "other": normal(2, 4)}, "x", "other"),
        target=lambda y: y,
        recipe=recipes["exact"],
    )
    assert torch.equal(done.relevance["other"], torch.zeros(2, 4, dtype=torch.float64))


def test_a_target_must_be_one_score_per_example() -> None:
    with pytest.raises(ValueError, match=r"one score per example: shape \(2,\)"):
        explain(lambda x: x, normal(2, 3), target=lambda y: y)


def test_a_target_that_ignores_the_input_is_refused() -> None:
    with pytest.raises(ModelError, match="does not depend on the input"):
        explain(lambda x: torch.ones(2, 3), normal(2, 3), target=lambda y: y.sum(1))


def test_a_model_that_never_looks_up_its_ids_is_refused() -> None:
    with pytest.raises(ModelError, match="never looked its token ids up"):
        explain_ids(lambda ids: F.one_hot(ids, 9).double(), torch.tensor([[1, 2]]), target=lambda y: y.sum((1, 2)))


def test_a_model_without_positions_has_no_such_layer() -> None:
    with pytest.raises(ModelError, match="at='word'"):
        explain_ids(lambda ids: F.embedding(ids, normal(9, 4)), torch.tensor([[1, 2]]), at="position")


@pytest.mark.parametrize(("dtype", "advice"), [(torch.float16, "bfloat16"), (torch.float32, "whence.audit")])
def test_numbers_that_are_not_finite_are_refused_with_advice(dtype: torch.dtype, advice: str) -> None:
    x = torch.tensor([[1.0, float("nan")]], dtype=dtype)
    with pytest.raises(NumericsError, match=advice):
        explain(lambda x: x * 2, x, target=lambda y: y.sum(1))


def test_an_overflow_in_half_precision_is_refused() -> None:
    x = torch.tensor([[300.0, 1.0]], dtype=torch.float16)
    with pytest.raises(NumericsError, match="float16 overflows"):
        explain(lambda x: x * 300, x, target=lambda y: y.sum(1))


class WithTypes(Classifier):
    """Positions and token types, as BERT adds them."""

    def __init__(self) -> None:
        super().__init__("pre")
        self.types = nn.Embedding(2, 8)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.types(torch.zeros_like(ids)) + self.positions(torch.arange(ids.shape[1]))[None]
        self.seen = x
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


def test_the_sink_of_positions_holds_positions_alone() -> None:
    """Types are another constant. By hand: ⟨what is added, gradient of what it is added to⟩."""
    model = seeded(WithTypes())
    done = explain_ids(model, IDS, "gi")
    with torch.enable_grad():
        y = model(IDS)
        (grad,) = torch.autograd.grad((y * seed_for(y)).sum(), model.seen)
    places, kinds = model.positions(torch.arange(IDS.shape[1])).detach(), model.types(torch.zeros_like(IDS)).detach()
    torch.testing.assert_close(done.sinks["position"], (places * grad).sum((1, 2)), **CLOSE)
    torch.testing.assert_close(done.sinks["constant"], (kinds * grad).sum((1, 2)), **CLOSE)
    torch.testing.assert_close(books(done), ZERO, **CLOSE)


@pytest.mark.parametrize("shape", [(20,), (20, 2, 3)])
def test_tables_of_numbers_and_of_matrices(shape: tuple[int, ...]) -> None:
    table = nn.Parameter(normal(*shape))
    done = explain_ids(lambda ids: table[ids] * 2, IDS, "gi", target=lambda y: y.flatten(1).sum(1))
    torch.testing.assert_close(done.relevance["ids"], 2 * table.detach()[IDS].flatten(2).sum(-1) if len(shape) > 1 else
                               2 * table.detach()[IDS], **CLOSE)  # fmt: skip


def test_parameters_keep_their_gradients() -> None:
    """Also where something the mode does not see, and something without gradients, stand in the model."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad * w, (grad * x).sum((0, 1))

    weight = nn.Parameter(normal(8))

    def model(ids: Tensor) -> Tensor:
        x = MODELS["pre"].words(ids)
        with torch.no_grad():
            x.mean()
        return Double.apply(x, weight)

    explain_ids(model, IDS, "gi", target=lambda y: y.flatten(1).sum(1))
    assert weight.grad is None


def test_compiling_goes_on_after_explanations_that_overlap() -> None:
    import torch._dynamo

    from whence.core.propagation import _eager

    with _eager:
        _eager.__enter__()
    assert torch._dynamo.eval_frame._stance.stance == "force_eager"
    _eager.__exit__(None, None, None)
    assert torch._dynamo.eval_frame._stance.stance == "default"
