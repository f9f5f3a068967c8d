"""Places inside a model: relevance of hidden tensors, and a receipt for every layer."""

from __future__ import annotations

import copy

import pytest
import torch

from tests import small
from whence.core.batch import Batch
from whence.core.crossing import inside
from whence.core.places import KINDS
from whence.core.recipe import recipes
from whence.models.asking import TargetScores
from whence.models.loading import load
from zoo.build import build

TEXT = "a witty movie"
TEXTS = {"bert": small.classifier, "llama": small.llama, "gpt2": small.gpt2}


def crossed(model, item, recipe="exact", **options):
    adapter = load(model)
    (example,), _ = adapter.encode(item)
    example, target = adapter.aim(example, adapter.default_target(example))
    batch = adapter.collate([example], [target])
    scores = TargetScores(adapter, batch, [target])
    return inside(adapter.forward, batch, module=adapter.module, target=scores, recipe=recipes[recipe], **options)


def made(kind):
    module = copy.deepcopy(TEXTS[kind]()).double().eval()
    return module, small.wordpiece()


@pytest.mark.parametrize("recipe", ["exact", "attn_lrp", "gi", "ah_ln"])
@pytest.mark.parametrize("kind", TEXTS)
def test_a_layer_and_all_that_is_absorbed_behind_it_are_the_target(kind, recipe):
    seen = crossed(made(kind), TEXT, recipe)
    assert len(seen.of("layers")) == len(seen.layers) > 1
    for place in seen.of("layers"):
        total = place.relevance.sum().item() + sum(seen.above(place.layer).values())
        assert total == pytest.approx(seen.target, abs=1e-6 * max(1, abs(seen.target)))


@pytest.mark.parametrize("kind", TEXTS)
def test_every_kind_of_place_is_there_once_a_layer(kind):
    seen = crossed(made(kind), TEXT)
    for name in set(KINDS) - {"experts"}:
        assert [place.layer for place in seen.of(name)] == list(range(len(seen.layers))), name
    heads = seen.of("heads")[0]
    assert heads.value.shape[heads.axis] == seen_heads(kind)


def seen_heads(kind):
    return TEXTS[kind]().config.num_attention_heads


def test_relevance_of_a_layer_is_value_times_gradient():
    module, tokenizer = made("bert")
    seen = crossed((module, tokenizer), TEXT, "gi")
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    states = module(input_ids=ids, output_hidden_states=True)
    logits = states.logits[0]
    for state in states.hidden_states[1:]:
        state.retain_grad()
    logits[logits.argmax()].backward()
    for place, state in zip(seen.of("layers"), states.hidden_states[1:], strict=True):
        torch.testing.assert_close(place.relevance, (state * state.grad).detach())


def test_what_attention_adds_is_read_from_the_heads_and_a_bias():
    seen = crossed(made("bert"), TEXT)
    for heads, adds in zip(seen.of("heads"), seen.of("attentions"), strict=True):
        module = dict(made("bert")[0].named_modules())[f"{adds.name}.attention.output.dense"]
        bias = (adds.gradient * module.bias.detach()).sum()
        assert heads.relevance.sum() + bias == pytest.approx(adds.relevance.sum().item(), abs=1e-6)


def test_neurons_are_what_the_mlp_reads():
    seen = crossed(made("llama"), TEXT)
    for neurons, adds in zip(seen.of("neurons"), seen.of("mlps"), strict=True):  # no bias
        assert neurons.relevance.sum().item() == pytest.approx(adds.relevance.sum().item(), abs=1e-6)


def test_a_module_by_its_name_and_nothing_else():
    module, tokenizer = made("bert")
    name = next(name for name, _ in module.named_modules() if name.endswith("layer.0.attention"))
    seen = crossed((module, tokenizer), TEXT, kinds=(), modules=[name])
    assert [(p.kind, p.name) for p in seen.places] == [("module", name)]


def test_hooks_are_gone_whatever_happens():
    module, tokenizer = made("bert")
    hooks = lambda: [(*m._forward_hooks, *m._forward_pre_hooks) for m in module.modules()]
    before = hooks()
    crossed((module, tokenizer), TEXT)
    adapter = load((module, tokenizer))
    (example,), _ = adapter.encode(TEXT)
    batch = adapter.collate([example])
    with pytest.raises(ZeroDivisionError):
        inside(adapter.forward, batch, module=module, target=lambda _: 1 / 0, recipe=recipes["exact"])
    assert hooks() == before


def test_what_later_blocks_read_of_an_encoder_passes_the_layers_of_the_decoder_by():
    seen = crossed((copy.deepcopy(small.t5()).double().eval(), small.wordpiece()), TEXT)
    for place in seen.of("layers"):
        total = place.relevance.sum().item() + sum(seen.above(place.layer).values())
        assert total == pytest.approx(seen.target, abs=1e-9 * max(1, abs(seen.target))), place.name
    beside = [seen.above(place.layer).get("beside", 0.0) for place in seen.of("layers")]
    assert beside[:2] == [0.0, 0.0]  # of the encoder, all is handed on
    assert abs(beside[2]) > 1e-3
    assert beside[3] == 0.0  # no block reads the encoder after the last


@pytest.mark.parametrize("way", ["grouped_mm", "eager"])
def test_experts_give_what_their_layer_gives(way):
    module = build("causal-lm", "mixtral").model
    module.set_experts_implementation(way)
    seen = crossed((module, small.wordpiece()), TEXT, kinds=["experts"], modules=["model.layers.0.mlp"])
    (whole,) = seen.of("module")
    experts = [place for place in seen.of("experts") if place.layer == 0]
    assert {place.experts for place in experts} == {4}
    assert sum(place.relevance.sum().item() for place in experts) == pytest.approx(
        whole.relevance.sum().item(), rel=1e-5
    )  # float32: the kernel knows no other
    rows = torch.cat([place.owners for place in experts])
    assert len(rows) == 2 * whole.value.shape[-2]  # two experts for each of the tokens


def test_experts_in_one_batched_product_are_not_taken_for_one_mlp():
    module = build("causal-lm", "mixtral").model
    module.set_experts_implementation("batched_mm")
    seen = crossed((module, small.wordpiece()), TEXT, kinds=["experts", "neurons", "mlps"])
    assert not seen.places


def test_heads_of_an_einsum_have_their_letter():
    """(query, head, channel) in place of (head, query, channel), as in XLNet."""

    class Spelled(torch.nn.Module):
        def forward(self, x):
            score = torch.einsum("ibnd,jbnd->bnij", x, x)
            return torch.einsum("bnij,jbnd->ibnd", score.softmax(-1), x).flatten(2).sum(-1).sum(0)[:, None]

    net = torch.nn.Module()
    net.blocks = torch.nn.ModuleList([Spelled(), Spelled()])
    batch = Batch.of({"x": torch.randn(1, 5, 3, 4).double()}, "x")
    forward = lambda inputs: net.blocks[0](inputs["x"].transpose(0, 1))
    (place,) = inside(
        forward, batch, module=net, target=lambda y: y[:, 0], recipe=recipes["exact"], kinds=["heads"]
    ).of("heads")
    assert place.value.shape[place.axis] == 3


def test_inputs_that_come_in_late_stand_on_the_receipts_of_the_layers_before():
    seen = crossed((copy.deepcopy(small.t5()).double().eval(), small.wordpiece()), TEXT)
    first = seen.of("layers")[0]
    assert "inputs" in seen.above(0)
    total = first.relevance.sum().item() + sum(seen.above(0).values())
    assert total == pytest.approx(seen.target, abs=1e-6 * max(1, abs(seen.target)))
