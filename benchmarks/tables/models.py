"""The two text models of the tables."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.tables.tasks import Task

__all__ = ["AttentionOnly", "accuracy", "fit", "make"]


@dataclass
class Output:
    logits: Tensor


class Block(nn.Module):
    """Attention and a residual, no feed-forward network; LayerNorm without affine parameters."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return F.layer_norm(x + self.out(mixed.transpose(1, 2).flatten(2)), x.shape[-1:])


class AttentionOnly(nn.Module):
    """The model of Ali et al. 2022: three attention-only blocks over frozen pretrained embeddings.

    A plain module: nothing in whence knows it. Unlike theirs it masks padding, so that batches equal single runs.
    """

    def __init__(self, embeddings: nn.Module, classes: int, width: int, heads: int = 8, blocks: int = 3):
        super().__init__()
        self.embeddings = embeddings.requires_grad_(False)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.head = nn.Linear(width, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Output:
        x = self.embeddings(input_ids=input_ids)
        mask = attention_mask[:, None, None, :].bool()
        for block in self.blocks:
            x = block(x, mask)
        return Output(self.head(x[:, 0]))


def make(kind: str, teacher: Path, classes: int, seed: int = 0) -> tuple[nn.Module, Any]:
    """A fresh model (`ali` or `minilm`) and its tokenizer."""
    import transformers

    torch.manual_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(teacher)
    if kind == "minilm":
        auto = transformers.AutoModelForSequenceClassification
        return auto.from_pretrained(teacher, num_labels=classes, dtype=torch.float32), tokenizer
    encoder = transformers.AutoModel.from_pretrained(teacher, dtype=torch.float32)
    return AttentionOnly(encoder.embeddings, classes, encoder.config.hidden_size), tokenizer


def fit(
    kind: str, module: nn.Module, tokenizer: Any, task: Task, device: str, *, quick: bool = False
) -> dict[str, Any]:
    """Train on the task; returns what was done. Quick: a single epoch on a few examples, of no use but to try."""
    start = time.time()
    pairs = task.train[: (128 if task.length <= 128 else 16) if quick else None]
    rate, batch = (5e-5, 64) if kind == "minilm" else (3e-4, 128)
    epochs = 1 if quick else task.epochs if kind == "minilm" else min(20, task.epochs * 3)
    module.to(device).train()
    trained = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01, fused=device == "cuda")
    encoded = tokenizer([t for t, _ in pairs], truncation=True, max_length=task.length)["input_ids"]
    steps = max(1, epochs * (len(pairs) // batch + 1))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps + 1, pct_start=0.1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for rows in _batches(encoded, batch, generator):
            ids, mask = _padded([encoded[i] for i in rows], tokenizer.pad_token_id, device)
            labels = torch.tensor([pairs[i][1] for i in rows], device=device)
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                loss = F.cross_entropy(module(input_ids=ids, attention_mask=mask).logits.float(), labels)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
            schedule.step()
    module.eval()
    return {
        "epochs": epochs,
        "examples": len(pairs),
        "rate": rate,
        "batch": batch,
        "seconds": round(time.time() - start, 1),
    }


def _batches(encoded: list[list[int]], size: int, generator: torch.Generator) -> list[list[int]]:
    """Batches of about equal length in random order."""
    shuffled = torch.randperm(len(encoded), generator=generator).tolist()
    chunks = [
        sorted(shuffled[i : i + 50 * size], key=lambda n: len(encoded[n])) for i in range(0, len(shuffled), 50 * size)
    ]
    made = [chunk[i : i + size] for chunk in chunks for i in range(0, len(chunk), size)]
    return [made[i] for i in torch.randperm(len(made), generator=generator).tolist()]


def _padded(rows: list[list[int]], pad: int, device: str) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([r + [pad] * (longest - len(r)) for r in rows], device=device)
    mask = torch.tensor([[1] * len(r) + [0] * (longest - len(r)) for r in rows], device=device)
    return ids, mask


def accuracy(module: nn.Module, tokenizer: Any, task: Task, device: str, limit: int | None = None) -> float:
    pairs = task.test[:limit]
    encoded = tokenizer([t for t, _ in pairs], truncation=True, max_length=task.length)["input_ids"]
    right = 0
    with torch.inference_mode():
        for start in range(0, len(pairs), 256):
            ids, mask = _padded(encoded[start : start + 256], tokenizer.pad_token_id, device)
            labels = torch.tensor([n for _, n in pairs[start : start + 256]], device=device)
            right += int((module(input_ids=ids, attention_mask=mask).logits.argmax(-1) == labels).sum())
    return right / len(pairs)
