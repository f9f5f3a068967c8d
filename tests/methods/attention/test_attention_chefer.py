"""Relevance of attention maps after Chefer et al. 2021: the whole pass, its rules, its batches."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

import whence
from tests import small
from tests.methods.attention.eager import double, one
from tests.methods.attention.tiny import sharp_bert, sharp_vit
from tests.reference import chefer_lrp
from whence.core.batch import Batch
from whence.core.capture import capture_relevance
from whence.core.interception import Interception
from whence.core.propagation import backward
from whence.core.relevance import CHEFER, relevance_table, universal
from zoo.build import build

IDS = torch.tensor([[2, 5, 9, 14, 8, 3], [2, 7, 11, 6, 20, 3], [2, 30, 12, 9, 9, 3]])
RELEVANCE_METHODS = ["transformer_attribution", "partial_lrp"]


# -- the whole pass ----------------------------------------------------------------------------------------------------


def captured(module, inputs, target: int) -> list[Tensor]:
    source = next(iter(inputs))
    return capture_relevance(
        lambda batch: module(**batch), Batch.of(inputs, source), target=lambda o: o.logits[:, target]
    )


@pytest.mark.parametrize("target", [0, 2])
def test_bert_equals_the_pass_by_hand(target):
    module = double(sharp_bert())
    made = captured(module, {"input_ids": IDS}, target)
    for n, ids in enumerate(IDS):
        for ours, theirs in zip(made, chefer_lrp.bert_relevance(module, ids, target), strict=True):
            torch.testing.assert_close(ours[n], theirs, atol=1e-8 * float(theirs.abs().max()), rtol=1e-8)


@pytest.mark.parametrize("target", [0, 2])
def test_vit_equals_the_pass_by_hand(target):
    module = double(sharp_vit())
    pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(4)).double()
    made = captured(module, {"pixel_values": pixels}, target)
    for n, image in enumerate(pixels):
        for ours, theirs in zip(made, chefer_lrp.vit_relevance(module, image, target)[0], strict=True):
            torch.testing.assert_close(ours[n], theirs, atol=1e-8 * float(theirs.abs().max()), rtol=1e-8)


def test_vit_pixels_equal_the_pass_by_hand():
    """Down to the convolution that cuts the patches."""
    module = double(sharp_vit())
    pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(4)).double()
    (made,) = through(lambda x: module(x).logits, [pixels], F.one_hot(torch.tensor([1, 1]), 3).double())
    for n, image in enumerate(pixels):
        theirs = chefer_lrp.vit_relevance(module, image, 1)[1]
        torch.testing.assert_close(made[n], theirs, atol=1e-8 * float(theirs.abs().max()), rtol=1e-8)


# -- the rules ---------------------------------------------------------------------------------------------------------


def through(function, inputs: list[Tensor], relevance: Tensor) -> list[Tensor]:
    """Relevance of `inputs`, given that of `function(*inputs)`."""
    batch = Batch.of({str(n): x for n, x in enumerate(inputs)}, *map(str, range(len(inputs))))
    mode = Interception(batch, relevance_table(), recipe=CHEFER, default=universal, follows=("examples",))
    with torch.enable_grad():
        with mode:
            out = function(*mode.prepared().values())
        grads = backward((out * relevance).sum(), [leaf.tensor for leaf in mode.leaves])
    return list(grads)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, Y, R = random(3, 5, 8, seed=1), random(3, 5, 8, seed=2), random(3, 5, 8, seed=3)
WEIGHT, BIAS = random(8, 8, seed=4), random(8, seed=5)


def per_example(x: Tensor) -> Tensor:
    return x.flatten(1).sum(1)


# stabilisers of 1e-9 beside denominators of about one
CONSERVED = {"atol": 1e-6, "rtol": 1e-6}

OF_ONE = {
    "linear": lambda x: F.linear(x, WEIGHT),
    "linear, biased": lambda x: F.linear(x, WEIGHT, BIAS),
    "x @ W": lambda x: x @ WEIGHT,
    "addmm": lambda x: torch.addmm(BIAS, x.view(-1, 8), WEIGHT).view(3, 5, 8),
    "gelu": F.gelu,
    "tanh": torch.tanh,
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": lambda x: F.layer_norm(x, (8,), BIAS, BIAS),
    "root mean square norm": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "scaling": lambda x: x / math.sqrt(8) * BIAS,
    "adding a constant": lambda x: x + Y,
    "moves": lambda x: x.transpose(0, 1).reshape(5, 3, 2, 4).flatten(2).transpose(0, 1),
    "used twice": lambda x: x[..., :4].repeat(1, 1, 2) * 2,
    "x less its largest": lambda x: x - x.max(-1, keepdim=True).values,
    "layer norm, spelled out": lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6),
    "divided by its sum": lambda x: x / x.sum(-1, keepdim=True),
    "einsum with a weight": lambda x: torch.einsum("btd,de->bte", x, WEIGHT),
    "W @ x": lambda x: (WEIGHT @ x.mT).mT,
    "rows into places": lambda x: torch.zeros(3, 5, 8).double().index_add(1, ROWS, x.repeat(1, 2, 1)),
    "changed in place": lambda x: x.cumsum(1).div_(5),
    "one part to all": lambda x: x[..., :1] + x.roll(1, -1),
}
ROWS = torch.tensor([0, 1, 2, 3, 4, 0, 0, 1, 3, 3])


@pytest.mark.parametrize("name", OF_ONE)
def test_relevance_is_conserved(name):
    (made,) = through(OF_ONE[name], [X], R)
    torch.testing.assert_close(per_example(made), per_example(R), **CONSERVED)


@pytest.mark.parametrize(
    "name",
    [
        "gelu",
        "tanh",
        "softmax",
        "layer norm",
        "layer norm, spelled out",
        "root mean square norm",
        "scaling",
        "x less its largest",
        "divided by its sum",
    ],
)
def test_each_element_keeps_its_relevance(name):
    torch.testing.assert_close(through(OF_ONE[name], [X], R)[0], R)


def test_mean_pooling_conserves():
    relevance = random(3, 8, seed=6)
    (made,) = through(lambda x: x.mean(1), [X], relevance)
    torch.testing.assert_close(per_example(made), relevance.sum(1), **CONSERVED)


def test_linear_equals_its_formula():
    torch.testing.assert_close(through(OF_ONE["linear, biased"], [X], R)[0], chefer_lrp.linear_rule(X, WEIGHT, R))
    torch.testing.assert_close(through(OF_ONE["x @ W"], [X], R)[0], chefer_lrp.linear_rule(X, WEIGHT.T, R))
    for spelling in ("addmm", "einsum with a weight"):
        torch.testing.assert_close(through(OF_ONE[spelling], [X], R)[0], chefer_lrp.linear_rule(X, WEIGHT.T, R))


def test_linear_gives_nothing_to_negative_contributions():
    x, weight = torch.tensor([[2.0, -1.0, 3.0]]), torch.tensor([[1.0, -2.0, -5.0]])
    # contributions 2, 2, -15: the first two share alike
    made = through(lambda x: F.linear(x, weight), [x], torch.ones(1, 1))[0]
    torch.testing.assert_close(made, torch.tensor([[0.5, 0.5, 0.0]]))


def test_convolution_equals_its_formula():
    pixels, weight, relevance = random(2, 3, 4, 4, seed=17), random(5, 3, 2, 2, seed=18), random(2, 5, 2, 2, seed=19)
    (made,) = through(lambda x: F.conv2d(x, weight, stride=2), [pixels], relevance)
    torch.testing.assert_close(per_example(made), per_example(relevance), **CONSERVED)
    for n in range(2):
        theirs = chefer_lrp.convolution_rule(pixels[n], weight, relevance[n].flatten(1).T)
        torch.testing.assert_close(made[n], theirs)


def test_addition_equals_its_formula_for_each_example_and_conserves():
    made = through(lambda x, y: x + y, [X, Y], R)
    torch.testing.assert_close(per_example(made[0] + made[1]), per_example(R), **CONSERVED)
    for n in range(3):
        for ours, theirs in zip(made, chefer_lrp.add_rule(X[n], Y[n], R[n]), strict=True):
            torch.testing.assert_close(ours[n], theirs)


def test_both_summands_keep_the_sign_of_the_whole():
    """Without rescaling one would get +5, say, and the other -4: that is what explodes with depth."""
    made = [per_example(part) for part in through(lambda x, y: x + y, [X, Y], R)]
    whole = per_example(R)
    for part in made:
        assert (part.sign() == whole.sign()).all()
        assert (part.abs() <= whole.abs() + 1e-9).all()


def test_matrix_products_give_half_to_each_side():
    a, b = torch.softmax(random(3, 2, 5, 5, seed=10), -1), random(3, 2, 5, 4, seed=11)
    relevance = random(3, 2, 5, 4, seed=12)
    made = through(lambda a, b: a @ b, [a, b], relevance)
    for part in made:
        torch.testing.assert_close(per_example(part), per_example(relevance) / 2, **CONSERVED)
    for ours, theirs in zip(made, chefer_lrp.matmul_rule(a, b, relevance), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_scores_with_a_bias_are_the_product():
    """baddbmm(positions, q, k): what is added takes nothing."""
    q, k, bias = random(3, 5, 4, seed=10), random(3, 4, 5, seed=11), random(3, 1, 5, seed=12)
    relevance = random(3, 5, 5, seed=13)
    made = through(lambda q, k: torch.baddbmm(bias, q, k, beta=2.0, alpha=0.5), [q, k], relevance)
    for ours, theirs in zip(made, chefer_lrp.matmul_rule(q, k, relevance), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_oss", "jetmoe", "llama", "mixtral"])
def test_inputs_get_all_of_it(model_type):
    """Nothing but tokens is added or concatenated in these, so nothing else may keep relevance, or make it."""
    specimen = build("causal-lm", model_type)
    rules = {"follows": ("examples",), "default": universal, "recipe": CHEFER}
    mode = Interception(Batch.of(one(specimen.inputs, 0), "input_ids"), relevance_table(), **rules)
    with torch.enable_grad():
        with mode:
            logits = specimen.model(**mode.prepared()).logits
        grads = backward(logits[:, -1, 1].sum(), [leaf.tensor for leaf in mode.leaves])
    assert sum(float(g.sum()) for g in grads if g is not None) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    "layout", ["batch first", "batch and tokens as one axis", "tokens first", "heads in the batch"]
)
def test_addition_finds_the_examples_in_any_layout(layout):
    """Normalised per example, wherever its numbers stand."""
    change = {
        "batch first": lambda x: x,
        "batch and tokens as one axis": lambda x: x.flatten(0, 1),
        "tokens first": lambda x: x.transpose(0, 1),
        "heads in the batch": lambda x: x.unflatten(-1, (2, 4)).transpose(1, 2).flatten(0, 1),
    }[layout]
    wanted = through(lambda x, y: x + y, [X, Y], R)
    made = through(lambda x, y: change(x) + change(y), [X, Y], change(R))
    for ours, theirs in zip(made, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


# -- batches and classes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", RELEVANCE_METHODS)
@pytest.mark.parametrize(
    ("task", "model_type"),
    [
        ("sequence-classification", "bert"),
        ("sequence-classification", "deberta-v2"),  # adds scores of all heads as (batch · head, query, key)
        ("sequence-classification", "xlnet"),  # states are (token, batch, hidden)
        ("causal-lm", "gpt2"),
        ("image-classification", "vit"),
    ],
)
def test_batch_equals_single(task, model_type, method):
    """The authors' public code normalises over the batch: there the other examples change the explanation."""
    specimen = build(task, model_type)
    together = whence.explain(specimen.model, dict(specimen.inputs), method, 1)
    for n, exp in enumerate(together):
        alone = whence.explain(specimen.model, one(specimen.inputs, n), method, 1)
        scale = max(1e-12, np.abs(alone.scores).max())
        np.testing.assert_allclose(exp.scores / scale, alone.scores / scale, atol=2e-4)  # float32, other kernels


@pytest.mark.parametrize("batch_first", [True, False])
def test_batch_equals_single_in_a_plain_module(batch_first):
    class Tagged(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(50, 16)
            block = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=batch_first)
            self.encoder = torch.nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
            self.head = torch.nn.Linear(16, 3)

        def forward(self, tokens):
            x = self.words(tokens)
            out = self.encoder(x if batch_first else x.transpose(0, 1))
            return self.head(out.mean(1 if batch_first else 0))

    torch.manual_seed(0)
    module = small.randomised(Tagged())
    tokens = torch.randint(0, 49, (3, 6), generator=torch.Generator().manual_seed(1))
    for method in (*RELEVANCE_METHODS, "attcat"):
        for n, exp in enumerate(whence.explain(module, {"tokens": tokens}, method, 1)):
            alone = whence.explain(module, {"tokens": tokens[n : n + 1]}, method, 1)
            scale = max(1e-12, np.abs(alone.scores).max())
            np.testing.assert_allclose(exp.scores / scale, alone.scores / scale, atol=2e-4)


CLASS_AGNOSTIC = ["attention_last", "rollout", "attention_flow"]
CLASS_SPECIFIC = ["gae", "grad_sam", "transformer_attribution", "partial_lrp", "attention_grad_cam", "attcat"]


@pytest.mark.parametrize("method", CLASS_AGNOSTIC)
def test_maps_alone_know_nothing_of_classes(method):
    model = (sharp_bert(), small.wordpiece())
    made = [whence.explain(model, "a good film", method, target) for target in (0, 1, 2)]
    assert not any(exp.class_specific for exp in made)
    for exp in made[1:]:
        np.testing.assert_array_equal(exp.scores, made[0].scores)


@pytest.mark.parametrize("method", CLASS_SPECIFIC)
def test_gradients_and_relevance_tell_classes_apart(method):
    model = (sharp_bert(), small.wordpiece())
    a, b, c = (whence.explain(model, "a good film , not dull", method, target) for target in (0, 1, 2))
    assert a.class_specific
    for x, y in ((a, b), (b, c), (a, c)):
        assert not np.allclose(x.scores, y.scores, rtol=1e-2, atol=0)


# -- targets and precision ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", RELEVANCE_METHODS)
def test_a_contrast_starts_from_both_sides(method):
    """Seeds of +1 and −1 through the same rules sum to nothing; the two passes are made apart, and subtracted."""
    model = whence.load((small.llama(), small.bytelevel()))
    exp = whence.explain(model, "the plot", method)
    assert " rather than " in exp.target
    assert np.abs(exp.scores).max() > 1e-6
    module, inputs = double(sharp_bert()), {"input_ids": IDS}
    forward = lambda batch: module(**batch)
    batch = Batch.of(inputs, "input_ids")
    contrast = capture_relevance(forward, batch, target=lambda o: o.logits[:, 0] - o.logits[:, 2])
    first, second = captured(module, inputs, 0), captured(module, inputs, 2)
    for both, this, that in zip(contrast, first, second, strict=True):
        torch.testing.assert_close(both, this - that, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("method", RELEVANCE_METHODS)
def test_half_precision_rounds_the_model_and_nothing_else(method, dtype):
    """Rules divide and subtract, which half precision does not survive: relevance is carried in full."""
    half = copy.deepcopy(sharp_bert()).to(dtype)
    full = copy.deepcopy(half).float()
    made, wanted = (whence.explain(m, {"input_ids": IDS[:1]}, method, 1).scores for m in (half, full))
    np.testing.assert_allclose(made, wanted, atol=0.02 * np.abs(wanted).max())


def test_half_precision_in_batches_of_relative_positions():
    """What is widened on the way still knows where the examples lie."""
    config = transformers.T5Config(
        vocab_size=50, d_model=16, d_ff=16, d_kv=8, num_layers=2, num_heads=2, num_labels=3, pad_token_id=0
    )
    torch.manual_seed(0)
    half = transformers.T5ForTokenClassification(config).eval().bfloat16()
    ids = torch.arange(2, 14).view(2, 6)
    target = lambda outputs: outputs.logits[:, 0, 1]
    many = whence.explain(half, {"input_ids": ids}, "transformer_attribution", target)
    for row, exp in zip(ids, many, strict=True):
        alone = whence.explain(half, {"input_ids": row[None]}, "transformer_attribution", target)
        np.testing.assert_allclose(exp.scores, alone.scores, atol=0.05 * np.abs(alone.scores).max())
