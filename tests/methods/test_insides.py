"""`explain(…, at=…)`: sums and names of places, against gradients taken by hand."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import whence
from tests import small
from whence.errors import InputError, OptionError
from whence.methods.propagate import Propagate
from zoo.build import build

TEXT = "a witty movie"
PLACES = ["layers", "heads", "attentions", "mlps", "neurons"]


@pytest.fixture(scope="module")
def bert():
    return copy.deepcopy(small.classifier()).double().eval(), small.wordpiece()


@pytest.fixture(scope="module")
def inside(bert):
    return whence.explain(bert, TEXT, at=PLACES)


def by_hand(bert, names):
    """value ⊙ gradient of what modules give, by name, for the best logit: plain gradients."""
    module, tokenizer = bert
    seen = {}
    known = dict(module.named_modules())

    def keep(name):
        def hook(_, args, out):
            value = out[0] if isinstance(out, tuple) else out
            value.retain_grad()
            seen[name] = value

        return known[name].register_forward_hook(hook)

    handles = [keep(name) for name in names]
    logits = module(**tokenizer(TEXT, return_tensors="pt")).logits[0]
    logits.max().backward()
    for handle in handles:
        handle.remove()
    return {name: (value * value.grad).detach()[0].numpy() for name, value in seen.items()}


def test_places_are_value_times_gradient(bert):
    """Under plain gradients, against autograd in float64: scores are kept as float32."""
    found = whence.explain(bert, TEXT, "gi", at=PLACES)
    layer = "bert.encoder.layer.1"
    parts = {"layers": layer, "attentions": f"{layer}.attention.output.dense", "mlps": f"{layer}.output.dense"}
    neurons = f"{layer}.intermediate.intermediate_act_fn"
    hand = by_hand(bert, [*parts.values(), neurons])
    for place, name in parts.items():
        np.testing.assert_allclose(found[place][1], hand[name].sum(-1), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found["neurons"][1], hand[neurons].sum(0), rtol=1e-5, atol=1e-7)


def test_a_head_is_the_gradient_of_a_gate_on_it(bert):
    """|∂f/∂gate| of Michel et al. 2019: f(1 + h) - f(1 - h) over 2 h, for a gate on what the head gives."""
    module, tokenizer = bert
    found = whence.explain(bert, TEXT, "gi", at="heads")
    dense = module.bert.encoder.layer[1].attention.output.dense
    ids = tokenizer(TEXT, return_tensors="pt")
    best = int(module(**ids).logits[0].argmax())
    for head in range(4):

        def score(gate, head=head):
            mask = torch.ones(4, 6).double()
            mask[head] = gate
            handle = dense.register_forward_pre_hook(lambda _, args: (args[0] * mask.reshape(-1),))
            with torch.no_grad():
                value = float(module(**ids).logits[0, best])
            handle.remove()
            return value

        slope = (score(1 + 1e-5) - score(1 - 1e-5)) / 2e-5
        assert found["heads"][1, head] == pytest.approx(slope, rel=1e-4, abs=1e-7)  # a difference, not a limit


def test_the_inputs_are_explained_as_ever(bert, inside):
    alone = whence.explain(bert, TEXT)
    np.testing.assert_array_equal(inside.inputs.scores, alone.scores)
    assert (inside.target, inside.tokens, inside.prediction) == (alone.target, alone.tokens, alone.prediction)
    assert inside.target_score == alone.target_score
    assert (inside.method, inside.inputs.options) == (alone.method, alone.options)
    assert inside.inputs.conservation.total == pytest.approx(alone.conservation.total, rel=1e-12)


def test_shapes_and_names(inside):
    tokens = len(inside.tokens)
    assert [inside[place].shape for place in PLACES] == [(2, tokens), (2, 4), (2, tokens), (2, tokens), (2, 32)]
    assert inside.layers == ("bert.encoder.layer.0", "bert.encoder.layer.1")
    assert inside.columns == (inside.tokens,) * 2
    np.testing.assert_allclose(inside.by_token["heads"].sum(-1), inside["heads"], atol=1e-6)
    layer, token, score = inside.top("layers", 1)[0]
    assert inside["layers"][layer, inside.tokens.index(token)] == pytest.approx(score)


@pytest.mark.parametrize("recipe", ["lrp", "gi", "attn_lrp", "cp_lrp", "ah_ln", "libragrad"])
def test_every_recipe_has_receipts(bert, recipe):
    found = whence.explain(bert, TEXT, recipe, at="layers")
    for layer, receipt in zip(found["layers"], found.receipts, strict=True):
        assert receipt.inputs == pytest.approx(float(layer.sum()), abs=1e-5)
        assert receipt.complete
        assert abs(receipt.error) <= 1e-9 * receipt.scale  # float64


def test_a_list_is_a_loop(bert):
    texts = [TEXT, "a dull plot and a boring film", "good"]
    for together, text in zip(whence.explain(bert, texts, at="heads"), texts, strict=True):
        np.testing.assert_array_equal(together["heads"], whence.explain(bert, text, at="heads")["heads"])


def test_a_target_is_of_its_own(bert):
    first, second = whence.explain(bert, [TEXT, TEXT], target=[0, 2], at="layers")
    assert first.target != second.target
    assert first["layers"][-1].sum() != pytest.approx(second["layers"][-1].sum())


def test_a_module_by_its_name(bert):
    name = "bert.encoder.layer.0.attention"
    found = whence.explain(bert, TEXT, at=[name, "bert.pooler"])
    assert found[name].shape == (len(found.tokens),)
    assert found["bert.pooler"].shape == (1,)


def test_what_was_written_is_one_target():
    model = (small.llama(), small.bytelevel())
    messages = [{"role": "user", "content": "hi"}]
    found = whence.explain(model, messages, continuation="abc", at=["layers", "heads"])
    span = whence.explain(model, messages, continuation="abc", target=whence.span())
    np.testing.assert_array_equal(found.inputs.scores, span.scores)
    part = whence.explain(model, messages, continuation="abc", target=whence.span("b"), at="heads")
    assert (found.target, part.target) == ("abc", "b")
    assert found["layers"].shape == (2, len(found.tokens))


def test_layers_of_an_encoder_and_a_decoder_have_tokens_of_their_own():
    found = whence.explain((small.t5(), small.wordpiece()), TEXT, continuation="good film", at=PLACES)
    assert isinstance(found["layers"], tuple)
    assert [names[0] for names in found.columns] == ["[CLS]", "[CLS]", "[PAD]", "[PAD]"]
    assert found.rows["heads"] == (0, 1, 2, 2, 3, 3)  # a decoder attends twice
    assert "later inputs" in found.receipts[0].sinks
    assert "beside" in found.receipts[2].sinks
    assert all(receipt.complete for receipt in found.receipts)


@pytest.mark.parametrize("family", ["qwen3_moe", "mixtral"])
def test_experts(family):
    model = (build("causal-lm", family).model, small.wordpiece())
    found = whence.explain(model, TEXT, at=["experts", "model.layers.1.mlp"])
    assert found["experts"].shape == (2, 4)
    assert found["experts"][1].sum() == pytest.approx(found["model.layers.1.mlp"].sum(), rel=1e-4)  # float32
    with pytest.raises(InputError, match="its MLPs are experts, so use at='experts'"):
        whence.explain(model, TEXT, at=["experts", "neurons"])


class Experts(nn.Module):
    """Two blocks of three experts, each a module of a list, mixed by a router."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.blocks = nn.ModuleList([Mixed(), Mixed()])
        self.head = nn.Linear(8, 2)

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(3))

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        return x + sum(weights[..., n, None] * expert(x) for n, expert in enumerate(self.experts))


def test_experts_that_are_modules():
    torch.manual_seed(0)
    net = Experts().double().eval()
    ids = torch.randint(1, 49, (1, 5))
    found = whence.explain(net, ids, at=["experts", *(f"blocks.1.experts.{n}" for n in range(3))])
    assert found["experts"].shape == (2, 3)
    alone = [found[f"blocks.1.experts.{n}"].sum() for n in range(3)]
    np.testing.assert_allclose(found["experts"][1], alone, rtol=1e-5)


def test_rows_that_were_not_seen_are_said_to_pass_by():
    """A head that reads two layers: of the first layer's receipt a part is missing, and it says so."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            first = self.blocks[0](x)
            last = self.blocks[2](self.blocks[1](first))
            return (first + last).sum(1)

    torch.manual_seed(0)
    found = whence.explain(Both().eval(), torch.randn(1, 3, 4), target=0, at="layers")
    assert [receipt.complete for receipt in found.receipts] == [True, False, False]
    assert "passes this layer by" in str(found)


def test_windows_and_stages():
    specimen = build("image-classification", "swin")
    found = whence.explain(specimen.model, {"pixel_values": specimen.inputs["pixel_values"][:1]}, at=PLACES)
    assert len(found.layers) == 4
    assert isinstance(found["heads"], tuple)
    assert not found.by_token  # heads in windows have no tokens in their order
    assert all(abs(r.error) <= 1e-5 * r.scale and r.complete for r in found.receipts)


def test_a_block_that_runs_twice_is_two_layers():
    found = whence.explain((build("sequence-classification", "albert").model, small.wordpiece()), TEXT, at="layers")
    assert len(found.layers) == 2
    assert len(set(found.layers)) == 1


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"at": "haeds"}, OptionError, r"Did you mean 'heads'\?"),
        ({"at": ["heads", "wrod"]}, OptionError, "is no place"),
        (
            {"at": ["layers", "embedding"]},
            OptionError,
            "'embedding' is a place of the input, and can't stand in a list",
        ),
        ({"at": 3}, OptionError, "at=3 is no place"),
        ({"at": "heads", "method": "rollout"}, InputError, "use method='lrp'"),
        ({"at": "experts"}, InputError, "no experts were seen"),
        ({"at": []}, InputError, "names no place"),
        ({"at": "heads", "by": "word"}, InputError, "leave by= out"),
        ({"at": "heads", "hops": 1}, InputError, "leave hops= out"),
        ({"at": "heads", "special_tokens": False}, InputError, "without_special"),
        ({"at": "heads", "memory": "recompute"}, InputError, "leave memory= out"),
        ({"at": "bert.embeddings.dropout", "method": Propagate(at="position")}, OptionError, "at='word'"),
    ],
)
def test_errors_say_what_to_do(bert, options, error, says):
    with pytest.raises(error, match=says):
        whence.explain(bert, TEXT, **options)


def test_places_of_the_input_are_as_they_were(bert):
    assert isinstance(whence.explain(bert, TEXT, at="embedding"), whence.Explanation)


def test_one_that_fails_is_skipped(bert):
    with pytest.warns(UserWarning, match="1 of 2 inputs skipped"):
        first, second = whence.explain(bert, [TEXT, ""], at="heads", on_error="skip")
    assert second is None
    assert first["heads"].shape == (2, 4)
