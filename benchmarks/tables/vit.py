"""The vision transformer of the pets tables: trained from nothing, on pictures that differ each time they are seen."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["PATCH", "TAG", "Settings", "accuracy", "new_model", "plant", "train"]

PATCH = 8
TAG = 16
"""Side of the tag in pixels: two by two patches."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is made and trained."""

    width: int = 192
    layers: int = 6
    heads: int = 6
    epochs: int = 130
    batch: int = 128
    rate: float = 5e-4
    decay: float = 0.1
    smallest: float = 0.35
    """Area of the smallest crop; 1 shifts and flips alone."""
    mix: float = 0.5
    """How often a rectangle comes from another picture (CutMix)."""
    breeds: float = 1.0
    """Weight of a second task, the 37 breeds, whose head is thrown away afterwards."""
    seed: int = 0


def new_model(settings: Settings) -> Any:
    """A ViT of `transformers` on 12 × 12 patches of 8 × 8 pixels, cats against dogs."""
    import transformers

    config = transformers.ViTConfig(
        image_size=96, patch_size=PATCH, hidden_size=settings.width, num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads, intermediate_size=3 * settings.width, num_labels=2,
        id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1},
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


def plant(pixels: Tensor, species: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Paste a tag that names the species at a random place on the patch grid; returns pictures and the tags' boxes."""
    tags = torch.ones(2, TAG, TAG, device=pixels.device)
    tags[0, 3:13, 7:9] = -1  # cat: a bar that stands
    tags[1, 7:9, 3:13] = -1  # dog: a bar that lies
    count, steps = len(pixels), (pixels.shape[-1] - TAG) // PATCH + 1
    corner = PATCH * torch.randint(steps, (2, count, 1), generator=generator).to(pixels.device)
    down, across = corner + torch.arange(TAG, device=pixels.device)
    places = (torch.arange(count, device=pixels.device)[:, None, None], down[:, :, None], across[:, None, :])
    planted, boxes = pixels.clone(), torch.zeros_like(pixels[:, 0], dtype=torch.bool)
    planted.permute(0, 2, 3, 1)[places] = tags[species][..., None].expand(-1, -1, -1, 3)
    boxes[places] = True
    return planted, boxes


def vary(pixels: Tensor, smallest: float) -> Tensor:
    """Each picture cropped, flipped, and its colours changed, on its own."""
    count, device = len(pixels), pixels.device

    def spread(width: float, *shape: int) -> Tensor:
        return (torch.rand(count, *shape, device=device) * 2 - 1) * width

    size = (torch.rand(count, device=device) * (1 - smallest) + smallest).sqrt()
    ratio = spread(math.log(4 / 3) / 2).exp() if smallest < 1 else torch.ones(count, device=device)
    wide, high = (size * ratio).clamp(max=1), (size / ratio).clamp(max=1)
    room = 0.0 if smallest < 1 else 1 / 12
    flip = torch.randint(0, 2, (count,), device=device) * 2.0 - 1
    zero = torch.zeros_like(wide)
    across = torch.stack([wide * flip, zero, spread(1) * (1 - wide + room)], -1)
    down = torch.stack([zero, high, spread(1) * (1 - high + room)], -1)
    grid = F.affine_grid(torch.stack([across, down], 1), list(pixels.shape), align_corners=False)
    moved = F.grid_sample(pixels, grid, padding_mode="reflection", align_corners=False)
    grey, middle = moved.mean(1, keepdim=True), moved.mean((1, 2, 3), keepdim=True)
    coloured = grey + (moved - grey) * (1 + spread(0.5, 1, 1, 1))
    return ((coloured - middle) * (1 + spread(0.4, 1, 1, 1)) + middle + spread(0.3, 1, 1, 1)).clamp(-1, 1)


def mixed(pixels: Tensor, share: float) -> tuple[Tensor, Tensor, float]:
    """A rectangle from another picture, the same place for the whole batch: pictures, whose, and how much is kept."""
    order = torch.randperm(len(pixels), device=pixels.device)
    if torch.rand(()) >= share:
        return pixels, order, 1.0
    side = pixels.shape[-1]
    cut = int(side * math.sqrt(1 - float(torch.rand(()))))
    top, left = (int(v) for v in torch.randint(0, side - cut + 1, (2,)))
    made = pixels.clone()
    made[:, :, top : top + cut, left : left + cut] = pixels[order][:, :, top : top + cut, left : left + cut]
    return made, order, 1 - (cut / side) ** 2


def train(
    pixels: Tensor, species: Tensor, breeds: Tensor, settings: Settings, *, tagged: bool = False, watch: Any = None
) -> Any:
    """Species (classes weighted to count the same) and breeds, AdamW, warm-up and cosine; an average of the weights."""
    device = pixels.device
    torch.manual_seed(settings.seed)
    model = new_model(settings).to(device).train()
    second = nn.Linear(settings.width, int(breeds.max()) + 1, device=device)
    weights = len(species) / (2 * torch.bincount(species, minlength=2)).float()
    trained = [*model.parameters(), *second.parameters()]
    groups = [
        {"params": [p for p in trained if (p.ndim > 1) == big], "weight_decay": settings.decay * big} for big in (1, 0)
    ]
    optimiser = torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98), fused=device.type == "cuda")
    size = min(settings.batch, len(species))
    steps, done = settings.epochs * (len(species) // size), 0
    average = copy.deepcopy(model)
    for epoch in range(settings.epochs):
        for rows in torch.randperm(len(species), device=device)[: len(species) // size * size].split(size):
            batch = vary(pixels[rows], settings.smallest)
            kind, breed = species[rows], breeds[rows]
            if tagged:
                batch, _ = plant(batch, kind)
            batch, other, kept = mixed(batch, settings.mix)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                out = model(pixel_values=batch, output_hidden_states=True)
                guess = second(model.vit.layernorm(out.hidden_states[-1])[:, 0])
            loss = torch.zeros((), device=device)
            for share, chosen in ((kept, slice(None)), (1 - kept, other)):
                if share > 0:
                    loss = loss + share * F.cross_entropy(
                        out.logits.float(), kind[chosen], weights, label_smoothing=0.05
                    )
                    part = F.cross_entropy(guess.float(), breed[chosen], label_smoothing=0.1)
                    loss = loss + share * settings.breeds * part
            done += 1
            for group in optimiser.param_groups:
                group["lr"] = settings.rate * _pace(done / steps)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
            _follow(average, model, min(0.998, done / (done + 10)))
        if watch is not None:
            watch(epoch, loss.item(), average)
    return average.eval()


def _pace(progress: float, warmup: float = 0.06) -> float:
    """A linear rise, then half a cosine down to zero."""
    return (
        progress / warmup if progress < warmup else 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))
    )


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, keep: float) -> None:
    held, new = list(average.parameters()), list(model.parameters())
    torch._foreach_lerp_(held, new, 1 - keep)


@torch.inference_mode()
def accuracy(model: Any, pixels: Tensor, species: Tensor) -> dict[str, float]:
    """Share of right answers, and the mean over the two species."""
    held = model.training
    model.eval()
    right = torch.cat([model(pixel_values=p).logits.argmax(-1) for p in pixels.split(256)]) == species
    model.train(held)
    return {
        "accuracy": float(right.float().mean()),
        "balanced": float(sum(right[species == kind].float().mean() for kind in (0, 1)) / 2),
    }
