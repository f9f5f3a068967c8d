"""Whose attention: `auto` finds the tokens that the prediction is read from, whatever the model is called."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import whence
from tests import small
from tests.methods.attention.eager import eager_maps, one
from tests.reference import attention_methods as slow
from whence.methods.attention.attention_method import LayerMap, choose_rows
from whence.models.example import Example
from zoo.build import build

TEXT = "a good film , not dull"


def ids(tokenizer, text: str = TEXT) -> dict[str, Tensor]:
    return {"input_ids": tokenizer(text, return_tensors="pt")["input_ids"]}


def assert_rows(
    exps: dict[str, whence.Explanation], module: nn.Module, inputs, target, rows: list[int], features=None
) -> None:
    """GAE and rollout, with and without gradients of their own, use `rows`."""
    A, G = eager_maps(module, inputs, target)["attentions"].of(0)
    wanted = {
        "gae": slow.gae(A, G, rows),
        "rollout": slow.rollout(A, rows),
        "attention_grad_cam": slow.attention_grad_cam(A, G, rows, variant="code"),
    }
    for method, exp in exps.items():
        scores = wanted[method] if features is None else features(wanted[method])
        # float32 against float64
        np.testing.assert_allclose(exp.scores, scores, atol=1e-5 * max(1e-3, np.abs(scores).max()), rtol=1e-4)


def explained(model, inputs, target=None, **options) -> dict[str, whence.Explanation]:
    return {
        m: whence.explain(model, inputs, m, target, **options, **({"variant": "code"} if "cam" in m else {}))
        for m in ("gae", "rollout", "attention_grad_cam")
    }


# -- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [small.llama, small.gpt2])
def test_a_causal_model_predicts_from_its_last_token(make):
    module, tokenizer = make(), small.bytelevel()
    exps = explained((module, tokenizer), "not bad", 65)
    assert_rows(exps, module, ids(tokenizer, "not bad"), lambda o: o.logits[:, -1, 65], [6])


def test_the_last_token_is_that_of_the_example_not_of_the_batch():
    module, tokenizer = small.llama_classifier(), small.bytelevel()
    for method in ("gae", "rollout"):
        long, short = whence.explain((module, tokenizer), ["a good film", "bad"], method, 1, batch_tokens=10_000)
        assert_rows({method: short}, module, ids(tokenizer, "bad"), lambda o: o.logits[:, 1], [2])
        assert_rows({method: long}, module, ids(tokenizer, "a good film"), lambda o: o.logits[:, 1], [10])


def test_a_given_continuation_is_read_from_all_the_tokens_that_predict_it():
    module, tokenizer = small.llama(), small.bytelevel()
    exps = explained((module, tokenizer), "bad", whence.span(score="logit"), continuation="dog")
    d, o, g = tokenizer("dog")["input_ids"]
    target = lambda out: out.logits[:, 2, d] + out.logits[:, 3, o] + out.logits[:, 4, g]
    assert_rows(exps, module, ids(tokenizer, "baddo"), target, [2, 3, 4])


def test_a_part_of_a_continuation():
    module, tokenizer = small.gpt2(), small.bytelevel()
    exps = explained((module, tokenizer), "bad", whence.span(1, 2, score="logit"), continuation="dog")
    o = tokenizer("o")["input_ids"][0]
    assert_rows(exps, module, ids(tokenizer, "baddo"), lambda out: out.logits[:, 3, o], [3])


def test_an_encoder_that_pools_its_first_token_with_and_without_a_tokenizer():
    module, tokenizer = small.classifier(), small.wordpiece()
    encoded = ids(tokenizer)
    for exps in (explained((module, tokenizer), TEXT, 2), explained(module, encoded, 2)):
        assert_rows(exps, module, encoded, lambda o: o.logits[:, 2], [0])


@pytest.mark.parametrize("token", [0, 3])
def test_a_tagger_predicts_from_the_token_it_labels(token):
    module, tokenizer = small.tagger(), small.wordpiece()
    exps = explained((module, tokenizer), TEXT, whence.token(token, 1))
    assert_rows(exps, module, ids(tokenizer), lambda o: o.logits[:, token, 1], [token])


def test_an_answer_is_read_from_its_start_and_its_end():
    from whence.models.targets import Answer

    module, tokenizer = small.answerer(), small.wordpiece()
    exps = explained((module, tokenizer), ("the film ?", "good and witty"), Answer(1, 4))
    encoded = dict(tokenizer("the film ?", "good and witty", return_tensors="pt"))
    assert_rows(exps, module, encoded, lambda o: o.start_logits[:, 1] + o.end_logits[:, 4], [1, 4])


def test_a_masked_word_is_read_from_its_mask():
    module, tokenizer = small.masked(), small.wordpiece()
    exps = explained((module, tokenizer), "a [MASK] film", 9)
    assert_rows(exps, module, ids(tokenizer, "a [MASK] film"), lambda o: o.logits[:, 2, 9], [2])


def test_a_function_as_target_is_read_from_wherever_it_looks():
    module, tokenizer = small.gpt2(), small.bytelevel()
    target = lambda o: o.logits[:, 1, 65]
    assert_rows(explained((module, tokenizer), "bad", target), module, ids(tokenizer, "bad"), target, [1])


@pytest.mark.parametrize(
    ("model_type", "rows"),
    [
        ("bert", [0]),
        ("deberta-v2", [0]),
        ("xlnet", [11]),  # its class token stands last
    ],
)
def test_classifiers_read_where_they_pool(model_type, rows):
    specimen = build("sequence-classification", model_type)
    inputs = one(specimen.inputs, 0)
    exps = explained(specimen.model, inputs, 1)
    if model_type == "bert":
        assert_rows(exps, specimen.model, inputs, lambda o: o.logits[:, 1], rows)
    for method, exp in exps.items():
        options = {"variant": "code"} if "cam" in method else {}
        row = "cls" if rows == [0] else "last"
        np.testing.assert_allclose(
            exp.scores, whence.explain(specimen.model, inputs, method, 1, row=row, **options).scores, rtol=1e-6
        )


def test_mean_pooling_reads_every_token():
    specimen = build("sequence-classification", "modernbert")
    specimen.model.config.classifier_pooling = "mean"
    inputs = one(specimen.inputs, 0)
    assert_rows(explained(specimen.model, inputs, 1), specimen.model, inputs, lambda o: o.logits[:, 1], list(range(12)))


# -- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_type", "before", "rows"),
    [
        ("vit", 1, [0]),
        ("deit", 2, [0]),  # class and distillation token, of which this head reads the first
        ("dinov2", 1, list(range(17))),  # class token beside the mean of the patches
        ("dinov2_with_registers", 5, [0, *range(5, 21)]),  # registers are not read
        ("beit", 1, list(range(1, 17))),  # mean of the patches: the class token is there and nobody reads it
    ],
)
def test_image_models(model_type, before, rows):
    specimen = build("image-classification", model_type)
    inputs = one(specimen.inputs, 1)
    exps = explained(specimen.model, inputs, 1)
    assert_rows(
        exps, specimen.model, inputs, lambda o: o.logits[:, 1], rows, features=lambda s: s[before:].reshape(4, 4)
    )


def test_every_method_sees_something_where_only_patches_are_read():
    """The class token's row has no relevance there (partial_lrp gave zeros)."""
    specimen = build("image-classification", "beit")
    assert np.abs(whence.explain(specimen.model, one(specimen.inputs, 0), "partial_lrp").scores).max() > 0


# -- the choice itself -------------------------------------------------------------------------------------------------


def last_map(read: list[int], length: int = 5) -> LayerMap:
    gradient = torch.zeros(2, length, length)
    gradient[0, read, 1] = -1e-8  # of either sign, however small, in one head alone
    return LayerMap(torch.full((2, length, length), 1 / length), gradient)


@pytest.mark.parametrize(
    ("choice", "rows"), [("cls", [0]), ("last", [4]), ("mean", [0, 1, 2, 3, 4]), ("column_sum", [0, 1, 2, 3, 4])]
)
def test_a_choice_is_obeyed(choice, rows):
    assert choose_rows(choice, Example({}, (), rows=(2,)), last_map([3])) == (rows, choice)


def test_auto_takes_the_rows_that_are_read():
    assert choose_rows("auto", Example({}, ()), last_map([1, 3])) == ([1, 3], "mean")


def test_auto_takes_all_rows_where_none_is_read():
    assert choose_rows("auto", Example({}, ()), last_map([])) == ([0, 1, 2, 3, 4], "mean")


def test_auto_prefers_the_predicting_token_where_layers_without_attention_mix_the_rest_in():
    assert choose_rows("auto", Example({}, (), rows=(3,)), last_map([0, 1, 2, 3]))[0] == [3]
    assert choose_rows("auto", Example({}, (), rows=(2, 3), written=(7, 8)), last_map([0, 1, 2, 3]))[0] == [2, 3]
