"""A fixed set of families through the questions of `make zoo`."""

from __future__ import annotations

import pytest
import torch

from zoo.build import CannotBuild, build, specimen_by
from zoo.check import check
from zoo.tasks import TASKS

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

OTHERS = [
    ("audio-classification", "wav2vec2"), ("audio-frame-classification", "wavlm"), ("ctc", "hubert"),
    ("depth-estimation", "dpt"), ("document-question-answering", "layoutlmv3"), ("image-text-to-text", "llava"),
    ("image-text-to-text", "qwen2_vl"), ("image-text-to-text", "mllama"), ("image-to-image", "swin2sr"),
    ("instance-segmentation", "maskformer"), ("masked-lm", "bert"), ("multiple-choice", "roberta"),
    ("next-sentence-prediction", "bert"), ("object-detection", "detr"), ("object-detection", "rt_detr"),
    ("question-answering", "distilbert"), ("question-answering", "lxmert"), ("semantic-segmentation", "segformer"),
    ("speech-seq2seq", "whisper"), ("time-series-classification", "patchtst"), ("time-series-prediction", "timesfm"),
    ("time-series-regression", "patchtsmixer"), ("token-classification", "bert"), ("token-classification", "bros"),
    ("universal-segmentation", "mask2former"), ("video-classification", "timesformer"),
    ("video-classification", "videomae"), ("visual-question-answering", "vilt"),
    ("zero-shot-image-classification", "clip"), ("zero-shot-object-detection", "grounding-dino"),
    ("causal-lm", "reformer"), ("depth-estimation", "zoedepth"), ("masked-lm", "nystromformer"), ("masked-lm", "yoso"),
]  # fmt: skip
"""Of every other task one or two; functions of a model's own, one that is compiled, and a batch whose examples mix."""


@pytest.mark.parametrize(("task", "model_type"), [*FAMILIES, *OTHERS])
def test_family(task, model_type):
    verdict = check(build(task, model_type))
    assert verdict.passed, f"{verdict.failures()}: {verdict}"
    assert not verdict.unruled


def test_every_task_has_a_family():
    assert {task for task, _ in (*FAMILIES, *OTHERS)} == set(TASKS)


def test_an_input_that_nothing_looks_at_is_not_built():
    """A specimen that its text alone decides would say nothing about pictures."""
    specimen = build("question-answering", "lxmert")

    class Deaf(torch.nn.Module):
        config, main_input_name = specimen.model.config, "input_ids"

        def forward(self, visual_feats, **others):
            return specimen.model(visual_feats=torch.ones_like(visual_feats), **others)

    with pytest.raises(CannotBuild, match="visual_feats and does not read it"):
        specimen_by(lambda model, generator: (specimen.inputs, specimen.flat), "question-answering", "", Deaf(), 0)
