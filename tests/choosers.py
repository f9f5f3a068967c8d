"""Tiny models that choose among texts that come with the input, as a server is given them."""

from __future__ import annotations

import copy
from typing import Any

import torch
import transformers

import whence
from tests import small
from tests.models.hearers import clap

__all__ = ["LABELS", "choosers"]

LABELS = ["good", "a bad film"]
SIZE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def _bert(kind: str, **extra: Any) -> tuple[Any, Any]:
    config = transformers.BertConfig(**SIZE, vocab_size=len(small.wordpiece()), max_position_embeddings=160, **extra)
    tokenizer = copy.deepcopy(small.wordpiece())  # others share it
    tokenizer.model_max_length = 160
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return small.randomised(getattr(transformers, kind)(config)), tokenizer


def choosers() -> dict[str, Any]:
    """One of each sort: labels tried on a text, choices, a picture's labels and a sound's."""
    names = dict(enumerate(("contradiction", "neutral", "entailment")))
    judge = _bert("BertForSequenceClassification", id2label=names, label2id={name: n for n, name in names.items()})
    return {
        "judge": whence.load(judge, task="zero-shot-classification"),
        "chooser": whence.load(_bert("BertForMultipleChoice")),
        "clip": whence.load(small.clip()),
        "clap": whence.load(clap()),
    }
