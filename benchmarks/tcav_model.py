"""A small vision transformer that tells textures apart, trained in a few minutes on one core."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from torch import Tensor, nn

__all__ = ["SIDE", "pictures", "processor", "train", "whole"]

SIDE, LARGE = 40, 60
MEAN = STD = 0.5


def pictures(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in (".jpg", ".jpeg", ".png"))


def processor() -> transformers.ViTImageProcessor:
    return transformers.ViTImageProcessor(
        size={"height": SIDE, "width": SIDE}, image_mean=[MEAN] * 3, image_std=[STD] * 3
    )


def whole(paths: list[Path], side: int = SIDE) -> Tensor:
    """Images (n, 3, side, side), values -1 to 1."""
    arrays = [np.asarray(Image.open(p).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)) for p in paths]
    return (torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).float() / 255 - MEAN) / STD


def _varied(batch: Tensor, rng: np.random.Generator) -> Tensor:
    """Crops, turns, mirrors, half of them grey: what is left to learn is the texture."""
    size = int(rng.integers(SIDE, LARGE + 1))
    views = []
    for image in batch:
        top, left = rng.integers(0, LARGE - size + 1, 2)
        view = torch.rot90(image[:, top : top + size, left : left + size], int(rng.integers(4)), (1, 2))
        view = view.flip(2) if rng.random() < 0.5 else view
        views.append(view.mean(0, keepdim=True).expand(3, -1, -1) if rng.random() < 0.5 else view)
    return F.interpolate(torch.stack(views), (SIDE, SIDE), mode="bilinear", antialias=True)


def train(
    folders: dict[str, list[Path]], tested: dict[str, list[Path]], *, seconds: float, epochs: int, seed: int
) -> tuple[nn.Module, dict[str, float]]:
    """A trained model in eval mode, and its accuracies. Stops after `epochs` or `seconds`, whichever comes first."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    labels = list(folders)
    config = transformers.ViTConfig(
        image_size=SIDE, patch_size=8, hidden_size=96, num_hidden_layers=4, num_attention_heads=4,
        intermediate_size=192, hidden_dropout_prob=0.05, num_labels=len(labels), id2label=dict(enumerate(labels)),
        label2id={label: n for n, label in enumerate(labels)},
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config).train()
    images = whole([p for paths in folders.values() for p in paths], LARGE)
    truth = torch.tensor([n for n, paths in enumerate(folders.values()) for _ in paths])
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    start, done = time.monotonic(), 0.0
    for epoch in range(epochs):
        for part in np.array_split(rng.permutation(len(images)), max(1, len(images) // 24)):
            done = max(epoch / epochs, (time.monotonic() - start) / seconds)
            if done >= 1:
                break
            for group in optimiser.param_groups:  # warm up, then down to zero when time or epochs end
                group["lr"] = 2e-3 * min(1.0, done / 0.05 + 0.02) * (1 - done)
            loss = F.cross_entropy(model(_varied(images[part], rng)).logits, truth[part], label_smoothing=0.1)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        if done >= 1:
            break
    model.eval()
    seen = _accuracy(model, whole([p for paths in folders.values() for p in paths]), truth)
    unseen = _accuracy(
        model,
        whole([p for paths in tested.values() for p in paths]),
        torch.tensor([n for n, paths in enumerate(tested.values()) for _ in paths]),
    )
    facts = {"train": seen, "held out": unseen, "epochs": epoch + 1, "seconds": time.monotonic() - start}
    return model, facts


@torch.no_grad()
def _accuracy(model: nn.Module, images: Tensor, truth: Tensor) -> float:
    return float((model(images).logits.argmax(-1) == truth).float().mean())
