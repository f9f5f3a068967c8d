"""Sentences of which it is known why two of them match, and a small encoder that learns it in a minute on a CPU.

There are 40 meanings with two words each, and words that mean nothing. A sentence has three meanings among some of the
latter. Two sentences are as similar as the share of meanings that they have in common, said with different words: so
where they share one, one pair of words makes the match, and nothing but training says which words belong together.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import torch
import torch.nn.functional as F
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

__all__ = ["Match", "make", "tokenizer", "trained"]

MEANINGS, EMPTY, HELD = 40, 60, 3
"""Pairs of words that mean the same, words that mean nothing, meanings in a sentence."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = (*SPECIAL, *(f"{side}{n}" for side in "ab" for n in range(MEANINGS)), *(f"x{n}" for n in range(EMPTY)))
LEARNING_RATE = 2e-3


class Match(NamedTuple):
    """Two sentences, how many meanings they share, and where the words for the first of these stand."""

    first: str
    second: str
    shared: int
    places: tuple[int, int]
    """Tokens, [CLS] counted; of no use where nothing is shared."""


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    """A token for each word."""
    raw = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(name, WORDS.index(name)) for name in ("[CLS]", "[SEP]")]
    raw.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=32,
    )  # fmt: skip


def make(count: int, draw: random.Random, shared: int | None = None) -> list[Match]:
    """Pairs of sentences; `shared` meanings in each, or any number."""
    made = []
    for _ in range(count):
        common = draw.randint(0, HELD) if shared is None else shared
        meanings = draw.sample(range(MEANINGS), 2 * HELD)
        sides = []
        for side, own in (("a", meanings[:HELD]), ("b", meanings[:common] + meanings[HELD : 2 * HELD - common])):
            words = [f"{side}{n}" for n in own] + [f"x{draw.randrange(EMPTY)}" for _ in range(draw.randint(4, 8))]
            order = draw.sample(range(len(words)), len(words))
            sides.append((" ".join(words[n] for n in order), order.index(0) + 1))
        if draw.random() < 0.5:  # a word does not say which of the two its sentence is
            sides.reverse()
        (first, i), (second, j) = sides
        made.append(Match(first, second, common, (i, j)))
    return made


def trained(steps: int = 800, batch: int = 96, seed: int = 0) -> tuple[transformers.BertModel, float]:
    """An encoder whose mean embeddings have that similarity, and how far it is off on new sentences, on average."""
    draw = random.Random(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = transformers.BertConfig(
            vocab_size=len(WORDS), hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
            max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=0,
        )  # fmt: skip
        model = transformers.BertModel(config, add_pooling_layer=False)
    reader = tokenizer()
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, steps, pct_start=0.1)
    model.train()
    for _ in range(steps):
        pairs = make(batch, draw)
        found, wanted = _similar(model, reader, pairs)
        loss = F.mse_loss(found, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        found, wanted = _similar(model, reader, make(512, draw))
    return model, float((found - wanted).abs().mean())


def _similar(model: transformers.BertModel, reader, pairs: list[Match]) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines as they are and as they should be."""
    rows = reader([p.first for p in pairs] + [p.second for p in pairs], padding=True, return_tensors="pt")
    tokens = model(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"]).last_hidden_state
    mask = rows["attention_mask"][..., None]
    one, two = ((tokens * mask).sum(1) / mask.sum(1)).chunk(2)
    return F.cosine_similarity(one, two), torch.tensor([p.shared / HELD for p in pairs])
