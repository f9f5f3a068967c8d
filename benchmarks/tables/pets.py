"""Clever Hans with known truth, and segmentation: a small ViT on pets, with and without a planted tag."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import whence
from benchmarks.tables.ali import versions
from benchmarks.tables.tasks import load_pets

__all__ = ["plant", "run_pets"]

METHODS = ["random", "attention_last", "rollout", "gae", "grad_sam", "transformer_attribution", "attention_grad_cam",
           "saliency", "integrated_gradients", "gi", "ah_ln", "exact", "attn_lrp", "libragrad", "gim"]  # fmt: skip
TAG = 16
"""Side of the tag in pixels: two by two patches of eight."""
PATCH = 8


def plant(images: np.ndarray, species: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Paste a small tag that names the species at a random place on the patch grid; returns images and box masks."""
    rng = np.random.default_rng(seed)
    planted, boxes = images.copy(), np.zeros(images.shape[:3], bool)
    steps = (images.shape[1] - TAG) // PATCH + 1
    for n, kind in enumerate(species):
        y, x = (int(v) * PATCH for v in rng.integers(0, steps, 2))
        tag = np.full((TAG, TAG, 3), 255, np.uint8)
        if kind == 0:
            tag[3:13, 7:9] = 0  # a bar that stands
        else:
            tag[7:9, 3:13] = 0  # a bar that lies
        planted[n, y : y + TAG, x : x + TAG] = tag
        boxes[n, y : y + TAG, x : x + TAG] = True
    return planted, boxes


def _pixels(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


def train(images: np.ndarray, species: np.ndarray, device: str, epochs: int, seed: int = 0) -> Any:
    """A ViT of six layers, trained from nothing with flips and shifts."""
    import transformers

    torch.manual_seed(seed)
    config = transformers.ViTConfig(
        image_size=96, patch_size=PATCH, hidden_size=192, num_hidden_layers=6, num_attention_heads=6, intermediate_size=512,
        num_labels=2, id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1}, hidden_dropout_prob=0.1,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config).to(device).train()
    pixels, labels = _pixels(images).to(device), torch.from_numpy(species).to(device)
    steps = epochs * (len(labels) // 128)
    optimiser = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-4, total_steps=steps + 1)
    for _ in range(epochs):
        for rows in torch.randperm(len(labels), device=device).split(128)[: len(labels) // 128]:
            batch = pixels[rows]
            if torch.rand(()) < 0.5:
                batch = batch.flip(-1)
            dy, dx = (int(v) for v in torch.randint(-8, 9, (2,)))
            batch = batch.roll((dy, dx), (-2, -1))
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                loss = F.cross_entropy(model(pixel_values=batch).logits.float(), labels[rows], label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def accuracy(model: Any, images: np.ndarray, species: np.ndarray, device: str) -> float:
    right = 0
    with torch.inference_mode():
        for start in range(0, len(species), 256):
            out = model(pixel_values=_pixels(images[start : start + 256]).to(device)).logits.argmax(-1).cpu().numpy()
            right += int((out == species[start : start + 256]).sum())
    return right / len(species)


def share_inside(scores: np.ndarray, mask: np.ndarray) -> float:
    """How much of the positive relevance lies inside the mask (patches weighted by their covered area)."""
    rows, columns = scores.shape
    cover = mask.reshape(rows, mask.shape[0] // rows, columns, mask.shape[1] // columns).mean((1, 3))
    positive = np.clip(scores, 0, None)
    return float((positive * cover).sum() / max(positive.sum(), 1e-12))


def run_pets(data: Path, out: Path, *, quick: bool = False) -> dict[str, Any]:
    """Train with and without tags; measure where each method looks, segmentation and perturbation."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, masks, species, test = load_pets(data)
    if quick:
        images, masks, species, test = (a[::20] for a in (images, masks, species, test))
    epochs = 1 if quick else 40
    tagged, boxes = plant(images, species, seed=1)
    start = time.time()
    hans = train(tagged[~test], species[~test], device, max(1, epochs // 6))
    honest = train(images[~test], species[~test], device, epochs)
    row: dict[str, Any] = {"versions": versions(), "seconds": round(time.time() - start, 1), "epochs": epochs}
    row["hans"] = _measured(hans, tagged[test], boxes[test], species[test], device, quick, "box")
    row["hans"]["accuracy_without_tag"] = accuracy(hans, images[test], species[test], device)
    out.mkdir(parents=True, exist_ok=True)
    _pictures(hans, honest, tagged[test], images[test], out)
    row["honest"] = _measured(honest, images[test], masks[test], species[test], device, quick, "mask")
    (out / "pets.json").write_text(json.dumps(row, indent=1))
    return row


def _measured(
    model: Any, images: np.ndarray, masks: np.ndarray, species: np.ndarray, device: str, quick: bool, what: str
) -> dict[str, Any]:
    loaded = whence.load(model, task="image-classification")
    chosen = np.random.default_rng(0).permutation(len(species))[: 8 if quick else 200]
    pixels, kept = _pixels(images[chosen]), masks[chosen]
    found: dict[str, Any] = {
        "accuracy": accuracy(model, images, species, device),
        "n": len(chosen),
        "area": float(kept.mean()),
        "share": {},
        "metrics": {},
    }
    for method in METHODS:
        results = whence.explain(loaded, pixels, method, progress=False)
        shares = np.array([share_inside(exp.scores, mask) for exp, mask in zip(results, kept, strict=True)])
        found["share"][method] = [float(shares.mean()), *_interval(shares)]
        print(f"  {what} {method:24} {shares.mean():.3f}", flush=True)
    if what == "mask":
        few = 60  # perturbing 18 times for each of 15 methods
        rows = list(zip(pixels, species[chosen], kept, strict=True))[:few]
        cases = [{"image": p, "label": int(s), "mask": m} for p, s, m in rows]
        judged = whence.evaluate(
            loaded, cases, METHODS, ["segmentation", "perturbation_positive", "perturbation_negative"], progress=False
        )
        found["metrics"] = judged.table()
    return found


def _interval(values: np.ndarray) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (2000, len(values)))].mean(1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def _pictures(hans: Any, honest: Any, tagged: np.ndarray, images: np.ndarray, out: Path) -> None:
    """One pet, tagged and plain, under a few methods: a picture for the page."""
    from PIL import Image

    from whence.viz.colour import blend, scale_of

    rows = []
    for model, picture in ((hans, tagged[3]), (honest, images[3])):
        loaded = whence.load(model, task="image-classification")
        panels = [picture]
        for method in ("exact", "attn_lrp", "gae", "rollout", "gi"):
            exp = whence.explain(loaded, _pixels(picture[None])[0], method)
            scale = scale_of(exp.scores)
            heat = np.array([[blend(float(s), scale) for s in line] for line in exp.scores], dtype=np.uint8)
            panels.append(heat.repeat(PATCH, 0).repeat(PATCH, 1))
        rows.append(np.concatenate([np.pad(p, ((2, 2), (2, 2), (0, 0)), constant_values=255) for p in panels], 1))
    Image.fromarray(np.concatenate(rows)).resize((1200, 400), Image.Resampling.NEAREST).save(out / "pets.png")
