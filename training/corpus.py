"""Token ids of many texts, served in batches of similar length."""

import numpy as np
import torch
from tokenizers import Tokenizer

POSITIONS = 256
"""The most tokens of a text that teachers and student read."""


class Corpus:
    """Token ids of many texts in one flat tensor on the device.

    Padding to the longest text of a mixed batch would more than double the work, hence batches by length.
    """

    def __init__(self, tokenizer: Tokenizer, texts: list[str], device: torch.device) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(POSITIONS)
        pieces = []
        for start in range(0, len(texts), 50_000):
            encoded = tokenizer.encode_batch_fast(texts[start : start + 50_000])
            pieces += [np.asarray(item.ids, dtype=np.int32) for item in encoded]
        self.lengths = np.array([len(piece) for piece in pieces])
        self.device = device
        self._flat = torch.from_numpy(np.concatenate(pieces)).to(device)
        self._starts = torch.from_numpy(np.cumsum(self.lengths) - self.lengths).to(device)
        self._sizes = torch.from_numpy(self.lengths).to(device)
        self._pad = tokenizer.token_to_id("[PAD]")

    def __len__(self) -> int:
        return len(self.lengths)

    def plan(self, tokens: int, most: int, rng: np.random.Generator | None = None) -> list[np.ndarray]:
        """Cut the texts into batches of about `tokens` tokens and at most `most` texts; shuffled if `rng` is given."""
        if self.device.type == "cpu":
            tokens //= 8  # a CPU gains nothing from large batches
        noise = rng.random(len(self)) * 2 if rng is not None else 0
        order = np.argsort(self.lengths + noise, kind="stable")
        batches, start = [], 0
        while start < len(order):
            size = min(most, max(1, tokens // (int(self.lengths[order[start]]) + 2)))
            batches.append(order[start : start + size])
            start += size
        if rng is not None:
            rng.shuffle(batches)
        return batches

    def batch(self, index: np.ndarray) -> dict[str, torch.Tensor]:
        """The padded input of the texts at `index`."""
        # A multiple of eight lets the GPU use its faster kernels.
        width = min(POSITIONS, -(-int(self.lengths[index].max()) // 8) * 8)
        rows = torch.from_numpy(index).to(self.device)
        column = torch.arange(width, device=self.device)
        mask = column < self._sizes[rows, None]
        ids = self._flat[(self._starts[rows, None] + column).clamp(max=len(self._flat) - 1)].long()
        return {"input_ids": ids.masked_fill(~mask, self._pad), "attention_mask": mask.long()}


def mean_state(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Average the hidden states over the real tokens."""
    mask = mask[..., None].to(hidden.dtype)
    return (hidden * mask).sum(1) / mask.sum(1)


@torch.no_grad()
def accuracy(model: torch.nn.Module, corpus: Corpus, labels: list[int]) -> float:
    """Share of texts whose label the model gives, in float32."""
    model.eval()
    truth = torch.tensor(labels, device=corpus.device)
    right = torch.zeros((), device=corpus.device)
    for index in corpus.plan(16_384, 512):
        rows = torch.from_numpy(index).to(corpus.device)
        right += (model(**corpus.batch(index)).logits.argmax(-1) == truth[rows]).sum()
    return right.item() / len(labels)
