"""Tiny classifiers whose attention is far from uniform and differs between heads, the same in every run."""

from __future__ import annotations

from functools import cache

import torch
import transformers

from tests import small

__all__ = ["sharp_bert", "sharp_vit"]

SIZES = {**small.SIZES, "initializer_range": 0.3, "num_labels": 3}


def _made(kind: type, config) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return small.randomised(kind(config))


@cache
def sharp_bert() -> transformers.BertForSequenceClassification:
    config = transformers.BertConfig(vocab_size=300, max_position_embeddings=64, pad_token_id=0, **SIZES)
    return _made(transformers.BertForSequenceClassification, config)


@cache
def sharp_vit() -> transformers.ViTForImageClassification:
    return _made(transformers.ViTForImageClassification, transformers.ViTConfig(image_size=16, patch_size=4, **SIZES))
