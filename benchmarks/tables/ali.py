"""AUAC and AU-MSE of every method on every task, for two models."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import whence
from benchmarks.tables.measuring import PRESETS, Measurements, measure, tuned
from benchmarks.tables.models import accuracy, fit, make
from benchmarks.tables.tasks import Task, load_mnist, load_task
from whence.methods.shap_values import Shap

__all__ = ["METHODS", "run_mnist", "run_task", "versions"]

METHODS = [
    "random", "attention_last", "rollout", "attention_flow", "gae", "grad_sam", "transformer_attribution", "saliency",
    "integrated_gradients", "shap", *PRESETS, "tuned",
]  # fmt: skip


def run_task(name: str, kind: str, data: Path, teacher: Path, out: Path, *, quick: bool = False) -> dict[str, Any]:
    """Train one model on one task, tune a recipe, measure, write `out/ali-NAME-KIND.json` and `.npz`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    task, calibration = _held_back(load_task(name, data), quick)
    module, tokenizer = make(kind, teacher, len(task.labels))
    training = fit(kind, module, tokenizer, task, device, quick=quick)
    score = accuracy(module, tokenizer, task, device, limit=100 if quick else None)
    print(f"{task.name} {kind}: accuracy {score:.4f} after {training['seconds']} s", flush=True)
    tokenizer.model_max_length = task.length
    model = whence.load((module, tokenizer), task="text-classification")
    model.labels = task.labels
    switches = {"protocol": "ali"}
    found, search = tuned(model, calibration, switches, budget=10 if quick else 60)
    examples = 6 if quick else (120 if task.length > 128 else 400)
    flows = examples // 2 if task.length > 128 else examples
    results = measure(model, task.test, _methods(found, "unk"), examples, switches, fewer={"attention_flow": flows})
    row = {
        "task": task.name, "note": task.note, "model": kind, "accuracy": score, "training": training, "tuned": search,
        "results": results.table, "versions": versions(), "test": len(task.test), "length": task.length, "seed": 0,
    }  # fmt: skip
    _write(out / f"ali-{name}-{kind}.json", row, results)
    return row


def run_mnist(data: Path, out: Path, *, quick: bool = False) -> dict[str, Any]:
    """The bundled `digits` model on MNIST test images, patches inserted and removed."""
    model = whence.load("digits")
    if torch.cuda.is_available():
        model.module.to("cuda")
    switches = {"target": "true", "fill": "black"}
    calibration = load_mnist(data, "train", 6 if quick else 300)
    found, search = tuned(model, calibration, switches, budget=10 if quick else 60)
    results = measure(model, load_mnist(data, "test"), _methods(found, "black"), 6 if quick else 400, switches)
    row = {
        "task": "MNIST", "note": "patches of 4×4 pixels", "model": "digits", "tuned": search, "results": results.table,
        "versions": versions(), "seed": 0,
    }  # fmt: skip
    _write(out / "ali-mnist-digits.json", row, results)
    return row


def _held_back(task: Task, quick: bool) -> tuple[Task, list[tuple[str, int]]]:
    """The task without its last training examples (in a fixed shuffled order), and those: the recipe is tuned on them."""
    order = np.random.default_rng(0).permutation(len(task.train))
    count = 8 if quick else min(260 if task.length <= 128 else 120, len(task.train) // 8)
    kept = [task.train[i] for i in np.sort(order[count:])]
    length = min(task.length, 48) if quick else task.length
    return replace(task, train=kept, length=length), [task.train[i] for i in order[:count]]


def _methods(found: Any, fill: str) -> dict[str, Any]:
    """What runs in each row. SHAP replaces what it leaves out as the metrics do, and may ask for every feature of the
    longest text: 2 · 256 coalitions."""
    return {m: m for m in METHODS} | {"shap": Shap(max_evals=1024, fill=fill), "tuned": found}


def _write(path: Path, row: dict[str, Any], results: Measurements) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row, indent=1) + "\n")
    np.savez_compressed(path.with_suffix(".npz"), **results.examples)


def versions() -> dict[str, str]:
    return {
        "whence": whence.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu",
    }
