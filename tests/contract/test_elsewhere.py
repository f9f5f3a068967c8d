"""Every method on every kind of model on another device: nothing is left on the CPU, nothing is wider than it may be.

The device is a stand-in (`tests.elsewhere`) that computes on the CPU, so results differ in rounding alone: sums are in
float32 there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import whence
from tests import elsewhere, small
from tests.elsewhere import There
from zoo.build import build

TEXTS = ["a gorgeous movie", "not good , but not very bad"]
SAYS = {"continuation": "a good movie", "target": whence.span()}
ZOO = {"swin": "image-classification", "modernbert": "sequence-classification", "mixtral": "causal-lm"}


def cases() -> dict[str, Any]:
    """Models with what reads for them, and inputs."""
    pictures = list(torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(2)))
    return {
        "classifier": lambda: (small.classifier(), small.wordpiece(), TEXTS, {}),
        "causal": lambda: (small.llama(), small.bytelevel(), TEXTS, {}),
        "masked": lambda: (small.masked(), small.wordpiece(), ["a [MASK] movie"], {}),
        "encoder-decoder": lambda: (small.t5(), small.wordpiece(), TEXTS, SAYS),
        "images": lambda: (small.vit(), None, pictures, {}),
    } | {family: lambda f=family: _of_the_zoo(f) for family in ZOO}


def _of_the_zoo(family: str) -> tuple[Any, Any, Any, dict[str, Any]]:
    made = build(ZOO[family], family)
    return made.model, None, dict(made.inputs), {"target": lambda outputs: outputs.logits.flatten(1)[:, 1]}


@lru_cache
def case(name: str) -> Any:
    module, companion, inputs, options = cases()[name]()
    away = elsewhere.moved(module)
    pairs = [m if companion is None else (m, companion) for m in (module, away)]
    return *(whence.load(pair) for pair in pairs), inputs, options


def placed(inputs: Any) -> Any:
    return {k: There(v) for k, v in inputs.items()} if isinstance(inputs, dict) else inputs


@pytest.mark.parametrize("method", whence.methods)
@pytest.mark.parametrize("name", cases())
def test_same_scores_elsewhere(name, method):
    here, away, inputs, options = case(name)
    quick = {"samples": 40} if method == "shap" else {}
    try:
        wanted = whence.explain(here, inputs, method, **options, **quick)
    except whence.WhenceError as error:
        pytest.skip(str(error))
    with elsewhere.device():
        found = whence.explain(away, placed(inputs), method, **options, **quick)
    for a, b in zip(found, wanted, strict=True):
        # float32 sums of one thing in another order, through random weights
        np.testing.assert_allclose(a.scores, b.scores, atol=2e-4 * np.abs(b.scores).max() + 1e-6)
        assert a.target_score == pytest.approx(b.target_score, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("at", ["word", "embedding", "position"])
@pytest.mark.parametrize("name", ["classifier", "causal", "images"])
def test_receipts_balance_elsewhere(name, at):
    here, away, inputs, options = case(name)
    try:
        whence.explain(here, inputs, "exact", at=at, **options)
    except whence.WhenceError as error:
        pytest.skip(str(error))
    with elsewhere.device():
        found = whence.explain(away, inputs, "exact", receipt="full", at=at, **options)
    for exp in found:
        assert exp.conservation.error == pytest.approx(0, abs=1e-4 * max(1.0, abs(exp.target_score)))


def story(vocabulary: int) -> Any:
    """A language model of so many words, here and elsewhere. The logits of many stay where they are."""
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        pad_token_id=0, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = small.randomised(transformers.LlamaForCausalLM(config))
    return [whence.load((m, small.bytelevel())) for m in (module, elsewhere.moved(module))]


VERBS = {
    "logprob": lambda m: whence.explain(m, "the plot", continuation="is", target=whence.span(score="logprob")).scores,
    "probability": lambda m: whence.explain(m, "a", continuation="b", target=whence.span(score="probability")).scores,
    "entropy": lambda m: whence.explain(m, "the plot", target=whence.entropy()).scores,
    "trace": lambda m: whence.explain(m, "the plot", continuation="is").scores,
    "hops": lambda m: whence.explain(m, "the", continuation="abc", target=whence.span(), hops=1).scores,
    "inside": lambda m: whence.explain(m, "the plot", target=70, at=["layers", "heads", "neurons"]).scores["heads"],
    "graph": lambda m: whence.graph(m, "the plot", target=70).heads,
    "patch": lambda m: whence.patch(m, "the plot", "the bloc", target=70).effects,
    "patch layers": lambda m: whence.patch(m, "the plot", "the bloc", target=70, at="layers", truth=True).truth,
    "patch edges": lambda m: whence.patch(m, "the plot", "the bloc", target=70, at="edges", truth=3).effects,
    "patch path": lambda m: whence.patch(m, "the plot", "the bloc", target=70, method="integrated_gradients").effects,
    "attention": lambda m: whence.attention(m, "the plot", relevance=True).relevance[0],
    "recompute": lambda m: whence.explain(m, "the plot", target=70, memory="recompute").scores,
    "similarity": lambda m: whence.similarity((m.module.model, m.tokenizer), "the plot", "a film").matrix,
    "retrieve": lambda m: whence.retrieve((m.module.model, m.tokenizer), "the", ["plot", "film"])[0].matrix,
    "replace": lambda m: whence.replace(m, "the plot", target=70, heads={(0, 1): "zero"}).score_after,
}


@pytest.mark.parametrize("words", [300, 40_000])
@pytest.mark.parametrize("verb", VERBS)
def test_same_answers_elsewhere(verb, words):
    here, away = story(words)
    wanted = np.asarray(VERBS[verb](here))
    with elsewhere.device():
        found = np.asarray(VERBS[verb](away))
    np.testing.assert_allclose(found, wanted, atol=2e-4 * np.nanmax(np.abs(wanted)) + 1e-6)
