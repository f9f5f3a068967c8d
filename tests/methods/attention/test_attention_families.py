"""Many architectures: finite scores for every token, or an error that says why not and what to do instead."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import transformers

import whence
from tests.contract.test_zoo import FAMILIES
from whence.errors import ModelError
from zoo.build import build

METHODS = [
    "attention_last", "rollout", "attention_flow", "gae", "grad_sam", "transformer_attribution", "partial_lrp",
    "attention_grad_cam", "attcat",
]  # fmt: skip
GAE_WORKS = {
    "sequence-classification": (
        "albert bart bert big_bird deberta-v2 distilbert electra esm modernbert mpnet roberta roformer squeezebert "
        "xlnet xlm-roberta"
    ),
    "causal-lm": (
        "deepseek_v3 falcon gemma2 gemma3_text gpt2 gpt_neox gpt_oss llama mistral mixtral opt phi3 qwen2 qwen3_moe"
    ),
    "seq2seq-lm": "bart m2m_100 t5",
    "image-classification": "beit deit dinov2 vit",
}
WITHOUT = {
    ("causal-lm", "mamba"): "computes none that is over all tokens",
    ("sequence-classification", "fnet"): "computes none that is over all tokens",
    ("image-classification", "convnext"): "computes none that is over all tokens",
    ("image-classification", "swin"): "are over windows or chunks",
    ("sequence-classification", "funnel"): r"change on the way \(3×3, 3×6, 6×6, 6×12, 12×12\)",
    ("sequence-classification", "canine"): "change on the way|meet elsewhere",  # convolutions between its blocks
    ("sequence-classification", "longformer"): "are over windows or chunks|change on the way",
    ("sequence-classification", "reformer"): "computes none that is over all tokens",
}


@cache
def specimen(task: str, model_type: str):
    transformers.logging.set_verbosity_error()
    return build(task, model_type)


def explained(task: str, model_type: str, method: str) -> list[whence.Explanation]:
    made = specimen(task, model_type)
    target = 5 if task == "seq2seq-lm" else None  # a token: there is no continuation to explain
    return whence.explain(made.model, dict(made.inputs), method, target)


def features(task: str, model_type: str) -> int:
    inputs = specimen(task, model_type).inputs
    if task == "image-classification":
        return 16
    return sum(inputs[name].shape[1] for name in ("input_ids", "decoder_input_ids") if name in inputs)


@pytest.mark.parametrize(("task", "model_type"), FAMILIES)
def test_finite_scores_or_a_reason(task, model_type):
    refused = {}
    for method in METHODS:
        try:
            exps = explained(task, model_type, method)
        except whence.WhenceError as error:
            refused[method] = str(error)
            continue
        for exp in exps:
            assert exp.scores.size == features(task, model_type), method
            assert np.isfinite(exp.scores).all(), method
            assert np.abs(exp.scores).max() > 0 or method == "attention_grad_cam"  # a ReLU at the end may leave nothing
    assert all("attention" in message for message in refused.values())
    assert ("gae" in refused) != (model_type in GAE_WORKS[task].split())


def test_every_family_is_expected_to_work_or_not():
    known = {(task, name) for task, names in GAE_WORKS.items() for name in names.split()} | set(WITHOUT)
    assert set(FAMILIES) <= known


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("task", "model_type"), WITHOUT)
def test_models_without_attention_over_all_tokens(task, model_type, method):
    with pytest.raises(ModelError, match=WITHOUT[task, model_type]) as caught:
        explained(task, model_type, method)
    assert str(caught.value).startswith(f"{method} needs attention")
    assert "method='lrp'" in str(caught.value)


@pytest.mark.parametrize("model_type", ["squeezebert", "xlnet"])
def test_attcat_says_what_it_lacks(model_type):
    with pytest.raises(ModelError, match="attcat needs the states that attention reads"):
        explained("sequence-classification", model_type, "attcat")


def test_an_encoder_of_an_encoder_decoder_family_is_one_sequence():
    """T5ForTokenClassification has the configuration of an encoder-decoder, and no decoder."""
    config = transformers.T5Config(
        vocab_size=60, d_model=16, d_ff=16, d_kv=8, num_layers=2, num_heads=2, num_labels=3, pad_token_id=0
    )
    assert config.is_encoder_decoder
    module = transformers.T5ForTokenClassification(config).eval()
    ids = specimen("seq2seq-lm", "t5").inputs["input_ids"][:1] % 60
    for method in METHODS:
        assert np.isfinite(whence.explain(module, {"input_ids": ids}, method, 1).scores).all()
