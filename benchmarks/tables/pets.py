"""Clever Hans with known truth, and segmentation: a small ViT on pets, with and without a planted tag."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import whence
from benchmarks.tables.ali import versions
from benchmarks.tables.measuring import kept
from benchmarks.tables.pets_picture import draw
from benchmarks.tables.tasks import load_pets
from benchmarks.tables.vit import Settings, accuracy, plant, train
from whence.core.recipe import Gamma, recipes
from whence.methods.attention.chefer import TransformerAttribution

__all__ = ["HANS", "HONEST", "METHODS", "Pets", "load_split", "run_pets"]

HELD_OUT = 1200
"""Test pictures, from the official test split. The rest of that split is trained on: a ViT from nothing needs them."""
HONEST = Settings()
HANS = Settings(epochs=25, smallest=1.0, mix=0.0, breeds=0.0)
GAMMA = recipes["attn_lrp"].but(name="attn_lrp γ", linear=Gamma(0.25), conv=Gamma(0.25))
METHODS: list[Any] = [
    "random", "attention_last", "rollout", "gae", "grad_sam", "partial_lrp", "transformer_attribution",
    "attention_grad_cam", "saliency", "integrated_gradients", "gi", "ah", "ln", "ah_ln", "cp_lrp", "exact", "attn_lrp",
    ("attn_lrp γ=0.25", GAMMA), "libragrad", "gim",
]  # fmt: skip
ABLATIONS = [
    (f"transformer_attribution ({a})", TransformerAttribution(ablation=a))
    for a in ("attention", "last_block", "first_block")
]


@dataclass(frozen=True)
class Pets:
    """Pictures as the model reads them, -1 to 1, with masks of the animals, species and breeds."""

    pixels: Tensor
    masks: np.ndarray
    species: Tensor
    breeds: Tensor


def load_split(data: Path, device: str) -> tuple[Pets, Pets]:
    """Train and test."""
    held = load_pets(data)
    test = np.zeros(len(held["test"]), bool)
    test[np.random.default_rng(0).permutation(np.flatnonzero(held["test"]))[:HELD_OUT]] = True
    parts = []
    for chosen in (~test, test):
        pixels = torch.from_numpy(held["images"][chosen]).permute(0, 3, 1, 2).float() / 127.5 - 1
        species, breeds = (torch.from_numpy(held[k][chosen]).to(device) for k in ("species", "breeds"))
        parts.append(Pets(pixels.to(device), held["masks"][chosen], species, breeds))
    return parts[0], parts[1]


def run_pets(data: Path, out: Path, *, quick: bool = False) -> dict[str, Any]:
    """Train with and without tags; measure where each method looks, segmentation and perturbation."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    seen, test = load_split(data, device)
    if quick:
        seen, test = (Pets(*(a[::20] for a in vars(p).values())) for p in (seen, test))
    settings = {"hans": HANS, "honest": HONEST}
    if quick:
        settings = {k: Settings(**{**asdict(s), "epochs": 1, "layers": 2}) for k, s in settings.items()}
    row: dict[str, Any] = {"versions": versions(), "trained_on": len(seen.species), "test": len(test.species)}
    row["majority"] = float(test.species.bincount().max() / len(test.species))
    models = {}
    for name, chosen in settings.items():
        start = time.time()
        models[name] = train(seen.pixels, seen.species, seen.breeds, chosen, tagged=name == "hans")
        row[name] = {"settings": asdict(chosen), "seconds": round(time.time() - start, 1)}
    tagged, boxes = plant(test.pixels, test.species, torch.Generator().manual_seed(1))
    swapped, _ = plant(test.pixels, 1 - test.species, torch.Generator().manual_seed(1))
    for name, pictures in (("with_tag", tagged), ("swapped", swapped), ("without_tag", test.pixels)):
        row["hans"][name] = accuracy(models["hans"], pictures, test.species)
    row["honest"] |= accuracy(models["honest"], test.pixels, test.species)
    print({k: row["hans"][k] for k in ("with_tag", "swapped", "without_tag")}, row["honest"], flush=True)
    out.mkdir(parents=True, exist_ok=True)
    loaded = {k: whence.load(m.float(), task="image-classification") for k, m in models.items()}
    draw(loaded, {"hans": tagged, "honest": test.pixels}, test.species, out / "pets.png", METHODS)
    count = 8 if quick else 400
    row["hans"] |= shares(loaded["hans"], tagged, boxes.cpu().numpy(), count)
    row["honest"] |= shares(loaded["honest"], test.pixels, test.masks, count)
    row["honest"]["metrics"] = judged(loaded["honest"], test, 8 if quick else 200)
    (out / "pets.json").write_text(json.dumps(row, indent=1))
    return row


def shares(model: Any, pixels: Tensor, masks: np.ndarray, count: int) -> dict[str, Any]:
    """Per method, how much of the positive relevance for the predicted class lies inside the masks."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(masks))[:count])
    kept = masks[chosen]
    found: dict[str, Any] = {}
    for entry in METHODS:
        name, method = entry if isinstance(entry, tuple) else (entry, entry)
        results = whence.explain(model, pixels[chosen].cpu(), method, progress=False)
        inside = np.array([share_inside(exp.scores, mask) for exp, mask in zip(results, kept, strict=True)])
        found[name] = [float(inside.mean()), *_interval(inside)]
        print(f"  {name:24} {inside.mean():.3f}", flush=True)
    return {"n": len(chosen), "area": float(kept.mean()), "share": found}


def share_inside(scores: np.ndarray, mask: np.ndarray) -> float:
    """How much of the positive relevance lies inside the mask (patches weighted by their covered area)."""
    rows, columns = scores.shape
    cover = mask.reshape(rows, mask.shape[0] // rows, columns, mask.shape[1] // columns).mean((1, 3))
    positive = np.clip(scores, 0, None)
    return float((positive * cover).sum() / max(positive.sum(), 1e-12))


def judged(model: Any, test: Pets, count: int) -> list[dict[str, Any]]:
    """Segmentation, positive and negative perturbation, with the ablations of Chefer et al. 2021."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(test.masks))[:count])
    pixels = test.pixels.cpu()
    cases = [{"image": pixels[i], "label": int(test.species[i]), "mask": test.masks[i]} for i in chosen]
    metrics = ["segmentation", "perturbation_positive", "perturbation_negative"]
    found = whence.evaluate(model, cases, [*METHODS, *ABLATIONS], metrics, progress=False)
    print(found, flush=True)
    return kept(found)


def _interval(values: np.ndarray) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (2000, len(values)))].mean(1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))
