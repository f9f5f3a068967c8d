"""A linear bag-of-words classifier: its weights are the true explanation."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn

import whence
from tests.small import WORDS, wordpiece
from whence.evaluation import from_function

TEXTS = [
    "a very good movie and a witty plot",
    "the film is dull and the plot is boring",
    "it is not a bad movie but a gorgeous film",
    "this was very bad and very boring",
    "an witty and gorgeous movie",
    "the dull plot of this film was not good",
    "good film good plot good movie",
    "bad",
]


class Bag(nn.Module):
    """logits_c = bias_c + Σ_t w_c[id_t]. Special tokens, UNK, MASK and PAD weigh nothing."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.words = nn.Embedding(300, 2)
        with torch.no_grad():
            self.words.weight.copy_(torch.randn(300, 2, generator=generator))
            self.words.weight[:5] = 0
        self.bias = nn.Parameter(torch.tensor([0.1, -0.2]))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return (self.words(input_ids) * attention_mask[..., None]).sum(1) + self.bias


@lru_cache
def bag() -> whence.models.AbstractAdapter:
    return whence.load((Bag().eval(), wordpiece()), task="text-classification")


def truth(model, text, target):
    """The weights: w_target - w_other moves the probability."""
    (example,), _ = model.encode(text)
    weights = model.module.words.weight.detach()[example.inputs["input_ids"]]
    return weights[:, target] - weights[:, 1 - target]


def noise(model, text, target):
    (example,), _ = model.encode(text)
    generator = torch.Generator().manual_seed(sum(map(ord, text)))
    return torch.randn(len(example.tokens), generator=generator)


ORACLE, RANDOM = from_function(truth, "oracle"), from_function(noise, "random")
OPPOSITE = from_function(lambda model, text, target: -truth(model, text, target), "opposite")
assert "movie" in WORDS
