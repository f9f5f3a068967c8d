"""A fixed set of families through the four questions of `make zoo`."""

from __future__ import annotations

import pytest

from zoo.build import build
from zoo.check import check

FAMILIES = [
    *(("sequence-classification", m) for m in (
        "albert", "bart", "bert", "big_bird", "canine", "deberta-v2", "distilbert", "electra", "esm", "fnet", "funnel",
        "longformer", "modernbert", "mpnet", "roberta", "roformer", "squeezebert", "xlnet", "xlm-roberta",
    )),
    *(("causal-lm", m) for m in (
        "deepseek_v3", "falcon", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "gpt_oss", "llama", "mamba", "mistral", "mixtral",
        "opt", "phi3", "qwen2", "qwen3_moe",
    )),
    *(("seq2seq-lm", m) for m in ("bart", "m2m_100", "t5")),
    *(("image-classification", m) for m in ("beit", "convnext", "deit", "dinov2", "swin", "vit")),
]  # fmt: skip


@pytest.mark.parametrize(("task", "model_type"), FAMILIES)
def test_family(task, model_type):
    verdict = check(build(task, model_type))
    assert verdict.passed, f"{verdict.failures()}: {verdict}"
    assert not verdict.unruled
