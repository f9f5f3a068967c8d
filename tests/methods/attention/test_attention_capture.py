"""Maps and gradients captured from fused attention are those of the model's eager attention under autograd."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import whence
from tests import small
from tests.methods.attention.eager import Seen, double, eager_maps, plain_encoder_maps
from whence.core.batch import Batch
from whence.core.capture import AttentionMap, capture
from whence.core.streaming import stream
from whence.methods.explaining import as_method
from whence.models.loading import load
from zoo.build import build

IDS = torch.tensor([[2, 5, 9, 14, 8, 3], [2, 7, 11, 6, 20, 3]])
# float64 throughout; sums of a few dozen terms in another order
CLOSE = {"atol": 1e-11, "rtol": 1e-9}
# transformers' eager attention takes its softmax in float32, also in a float64 model
EAGER = {"atol": 1e-7, "rtol": 1e-5}


def logit(outputs) -> Tensor:
    return outputs.logits[:, 1] if outputs.logits.dim() == 2 else outputs.logits[:, -1, 7]


def captured_maps(module: nn.Module, inputs: dict[str, Tensor], target=logit, **options) -> list[AttentionMap]:
    module = double(module)
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    sources = tuple(n for n in ("pixel_values", "input_ids", "decoder_input_ids") if n in inputs)
    return capture(lambda batch: module(**batch), Batch.of(inputs, *sources), target=target, **options).maps


def assert_same(made: list[AttentionMap], seen: Seen, close: dict = EAGER) -> None:
    assert len(made) == len(seen.maps)
    for m, a, g in zip(made, seen.maps, seen.gradients, strict=True):
        torch.testing.assert_close(m.probabilities, a, **close)
        torch.testing.assert_close(torch.zeros_like(a) if m.gradient is None else m.gradient, g, **close)


MODELS = {
    "bert": lambda: (small.classifier(), {"input_ids": IDS}),
    "bert, padded": lambda: (
        small.classifier(),
        {"input_ids": IDS, "attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2])},
    ),
    "vit": lambda: (
        small.vit(),
        {"pixel_values": torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))},
    ),
    "llama, grouped heads": lambda: (small.llama(), {"input_ids": IDS}),
    "llama classifier, padded": lambda: (
        small.llama_classifier(),
        {
            "input_ids": torch.tensor([[5, 9, 14, 8], [7, 11, 0, 0]]),
            "attention_mask": torch.tensor([[1] * 4, [1, 1, 0, 0]]),
        },
    ),
    "gpt2": lambda: (small.gpt2(), {"input_ids": IDS}),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_stream(name):
    module, inputs = MODELS[name]()
    assert module.config._attn_implementation == "sdpa"
    assert_same(captured_maps(module, inputs), eager_maps(module, inputs, logit)["attentions"])
    assert module.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_an_eager_model_gives_the_same_maps(name):
    module, inputs = MODELS[name]()
    module = copy.deepcopy(module)
    module.set_attn_implementation("eager")
    assert_same(captured_maps(module, inputs), eager_maps(module, inputs, logit)["attentions"])


@pytest.mark.parametrize("name", MODELS)
def test_streamed_maps_are_the_same_maps(name):
    module, inputs = MODELS[name]()
    seen = eager_maps(module, inputs, logit)["attentions"]
    asked = {}

    def visit(made, found):
        ones = torch.ones(found.examples, found.queries)
        asked[made.number] = (found.columns(ones), found.helpful_columns(ones), found.helpful_rows())

    made = double(module)
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    batch = Batch.of(inputs, *(n for n in ("pixel_values", "input_ids") if n in inputs))
    stream(lambda batch: made(**batch), batch, target=logit, visitor=visit)
    assert list(asked) == sorted(asked, reverse=True)  # last layer first: the order of the backward pass
    assert len(asked) == len(seen.maps)
    for number, (columns, helpful, rows) in asked.items():
        p, g = seen.maps[number], seen.gradients[number]
        torch.testing.assert_close(columns.to(p), p.sum((1, 2)), **EAGER)
        torch.testing.assert_close(helpful.to(p), (p * g).clamp(min=0).sum((1, 2)), **EAGER)
        torch.testing.assert_close(rows.to(p), (p * g).clamp(min=0).sum((1, 3)), **EAGER)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_encoder_decoder(name):
    if name == "t5":
        module, inputs = small.t5(), {"input_ids": IDS, "decoder_input_ids": torch.tensor([[0, 5, 6], [0, 9, 4]])}
    else:
        specimen = build("seq2seq-lm", name)
        module, inputs = specimen.model, specimen.inputs
    fields = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    seen = eager_maps(module, inputs, logit, tuple(fields.values()))
    made = captured_maps(module, inputs)
    for name, field in fields.items():
        assert_same([m for m in made if m.stream == name], seen[field])


def test_a_decoder_that_makes_its_own_ids():
    """A BART classifier shifts the ids it was given: still two sequences."""
    specimen = build("sequence-classification", "bart")
    made = captured_maps(specimen.model, specimen.inputs)
    assert [m.stream for m in made] == ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]


def test_plain_module():
    module = double(small.by_hand())
    tokens = torch.tensor([[3, 8, 1, 40, 7], [4, 4, 9, 30, 2]])
    x = module.words(tokens) + module.places[:5]
    seen = plain_encoder_maps(module.encoder, x.detach(), lambda y: module.head(y.mean(1))[:, 1])
    made = capture(lambda b: module(**b), Batch.of({"tokens": tokens}, "tokens"), target=lambda y: y[:, 1]).maps
    assert_same(made, seen, CLOSE)


def test_only_the_last_map_has_a_gradient_unless_asked():
    module, inputs = MODELS["bert"]()
    made = captured_maps(module, inputs, gradients=False)
    seen = eager_maps(module, inputs, logit)["attentions"]
    assert made[0].gradient is None
    torch.testing.assert_close(made[-1].gradient, seen.gradients[-1], **EAGER)


# -- the states that attention reads -----------------------------------------------------------------------------------


def test_states_of_a_post_norm_encoder_are_the_layer_inputs_with_their_whole_gradient():
    module, inputs = MODELS["bert"]()
    made = captured_maps(module, inputs)
    outputs = double(module)(**inputs, output_hidden_states=True)
    states = outputs.hidden_states[:-1]
    for m, h, g in zip(made, states, torch.autograd.grad(logit(outputs).sum(), states), strict=True):
        torch.testing.assert_close(m.states, h.detach(), **CLOSE)
        torch.testing.assert_close(m.states_gradient, g, **CLOSE)


@pytest.mark.parametrize("name", ["vit", "gpt2", "llama, grouped heads"])
def test_states_of_pre_norm_models_are_normed(name):
    module, inputs = MODELS[name]()
    made = captured_maps(module, inputs)
    module = double(module)
    seen = []
    for _, norm in module.named_modules():
        if type(norm).__name__.endswith(("LayerNorm", "RMSNorm")):
            norm.register_forward_hook(lambda _m, _i, out: seen.append(out))
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    outputs = module(**inputs)
    before = seen[:-1:2]  # two norms per layer, the first before attention; one at the end
    for m, h, g in zip(made, before, torch.autograd.grad(logit(outputs).sum(), before), strict=True):
        torch.testing.assert_close(m.states, h.detach(), **CLOSE)
        torch.testing.assert_close(m.states_gradient, g, **CLOSE)


@pytest.mark.parametrize("length", [5, 3, 6])  # as many tokens as examples, a multiple, neither
def test_states_of_a_module_that_puts_tokens_first(length):
    """nn.MultiheadAttention works on (token, batch, hidden), and the path around it on (batch, token, hidden)."""
    module = double(small.by_hand())
    tokens = torch.randint(0, 49, (3, length), generator=torch.Generator().manual_seed(3))
    made = capture(lambda b: module(**b), Batch.of({"tokens": tokens}, "tokens"), target=lambda y: y[:, 1]).maps
    x = (module.words(tokens) + module.places[:length]).detach().requires_grad_()
    states = [x]
    for layer in module.encoder.layers:
        states.append(layer(states[-1]))
    score = module.head(states[-1].mean(1))[:, 1].sum()
    for m, h, g in zip(made, states[:-1], torch.autograd.grad(score, states[:-1]), strict=True):
        torch.testing.assert_close(m.states, h.detach(), **CLOSE)
        torch.testing.assert_close(m.states_gradient, g, **CLOSE)


def test_collect_runs_the_model_once_for_maps_alone(monkeypatch):
    model = load((small.classifier(), small.wordpiece()))
    calls = []
    monkeypatch.setattr(model, "forward", lambda batch, forward=model.forward: calls.append(1) or forward(batch))
    (example,), _ = model.encode("a good film")
    as_method("rollout").collect(model, model.collate([example]), [model.default_target(example)])
    assert len(calls) == 1


@pytest.mark.parametrize("method", ["transformer_attribution", "attention_flow", "gae"])
def test_maps_that_do_not_fit_are_an_error_before_they_are_written(method, monkeypatch):
    monkeypatch.setattr("whence.core.capture.room_on", lambda device: 10)
    options = {"stream": False} if method == "gae" else {}
    with pytest.raises(whence.errors.ModelError, match=r"writes down every attention map, about .* GiB .* are free"):
        whence.explain((small.classifier(), small.wordpiece()), "a gorgeous movie", method, **options)
