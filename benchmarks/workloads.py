"""The models and inputs that are timed: the shapes of BERT-base and of a small Llama, with random weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor, nn

__all__ = ["SHAPES", "Workload", "workload"]

SHAPES = ((8, 128), (1, 1024))
"""Batch and length."""
CLASS, TOKEN = 1, 17
"""The explained class of the classifier, and the explained next token of the language model (it has a word)."""


@dataclass(frozen=True)
class Workload:
    """A model, a batch for it and the score that is explained. Every method gets the same."""

    family: str
    module: nn.Module
    inputs: dict[str, Tensor]

    @property
    def name(self) -> str:
        batch, length = self.inputs["input_ids"].shape
        return f"{self.family} {batch}×{length}"

    @property
    def embedding(self) -> nn.Embedding:
        """The table of word embeddings."""
        return self.module.get_input_embeddings()

    @property
    def label(self) -> int:
        return CLASS if self.family == "bert" else TOKEN

    def forward(self, inputs: dict[str, Any]) -> Any:
        extra = {} if self.family == "bert" else {"use_cache": False}
        return self.module(**inputs, **extra)

    def target(self, outputs: Any) -> Tensor:
        """One score per example: a class of the classifier, a next token of the language model."""
        return outputs.logits[:, CLASS] if self.family == "bert" else outputs.logits[:, -1, TOKEN]

    def embedded(self) -> dict[str, Tensor]:
        """The inputs with looked-up vectors in place of ids."""
        rest = {k: v for k, v in self.inputs.items() if k != "input_ids"}
        return {"inputs_embeds": self.embedding(self.inputs["input_ids"]).detach(), **rest}


def workload(family: str, batch: int, length: int, *, layers: int = 12, hidden: int = 768, heads: int = 12) -> Workload:
    """A model of a family with random weights, in evaluation, and random ids without padding."""
    torch.manual_seed(0)
    size = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
    module = (_bert if family == "bert" else _llama)(size, hidden).eval()
    ids = torch.randint(10, module.config.vocab_size, (batch, length))
    return Workload(family, module, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def _bert(size: dict[str, int], hidden: int) -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=30522, intermediate_size=4 * hidden, max_position_embeddings=1024, num_labels=2, **size
    )
    return transformers.BertForSequenceClassification(config)


def _llama(size: dict[str, int], hidden: int) -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=32000, intermediate_size=hidden * 8 // 3, num_key_value_heads=4, max_position_embeddings=2048, **size
    )
    return transformers.LlamaForCausalLM(config)
