"""AUAC and AU-MSE of every method on every task, for two models."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

import whence
from benchmarks.tables.models import accuracy, fit, make
from benchmarks.tables.tasks import Task, load_mnist, load_task

__all__ = ["METHODS", "run_mnist", "run_task"]

METHODS = [
    "random", "attention_last", "rollout", "attention_flow", "gae", "grad_sam", "transformer_attribution", "saliency",
    "integrated_gradients", "gi", "ah", "ln", "ah_ln", "cp_lrp", "exact", "attn_lrp", "libragrad", "gim", "shap",
]  # fmt: skip
SLOW = {"attention_flow", "shap"}
"""Minutes on long texts: measured on fewer examples there, and the table says on how many."""


def run_task(
    name: str, kind: str, data: Path, teacher: Path, out: Path, *, quick: bool = False, methods: list[str] | None = None
) -> dict[str, Any]:
    """Train one model on one task, measure, write `out/ali-NAME-KIND.json`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    task = load_task(name, data)
    module, tokenizer = make(kind, teacher, len(task.labels))
    training = fit(kind, module, tokenizer, task, device, limit=600 if quick else None)
    score = accuracy(module, tokenizer, task, device, limit=200 if quick else None)
    print(f"{task.name} {kind}: accuracy {score:.4f} after {training['seconds']} s", flush=True)
    tokenizer.model_max_length = task.length
    model = whence.load((module, tokenizer), task="text-classification")
    model.labels = task.labels
    examples = 12 if quick else (120 if task.length > 128 else 400)
    results = measure(model, task, methods or METHODS, examples)
    row = {
        "task": task.name, "note": task.note, "model": kind, "accuracy": score, "training": training, "results": results,
        "versions": versions(), "test": len(task.test), "length": task.length,
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    (out / f"ali-{name}-{kind}.json").write_text(json.dumps(row, indent=1))
    return row


def measure(model: Any, task: Task, methods: list[str], examples: int) -> dict[str, Any]:
    """Every method in its own call, so that one that can't run leaves the others alone."""
    results: dict[str, Any] = {}
    for method in methods:
        start = time.time()
        few = 10 if task.length >= 128 else 2
        count = max(6, examples // few) if method in SLOW else examples
        try:
            judged = whence.evaluate(
                model,
                task.test,
                [method],
                ["auac", "au_mse"],
                protocol="ali",
                limit=count,
                seed=0,
                truncate=True,
                progress=False,
            )
        except (whence.WhenceError, ImportError) as error:
            results[method] = {"error": str(error)}
            print(f"  {method}: {error}", flush=True)
            continue
        results[method] = {
            "n": count,
            "seconds": round(time.time() - start, 1),
            **{m: [judged.value(method, m), *judged.interval(method, m)] for m in ("auac", "au_mse")},
        }
        print(f"  {method:24} {results[method]}", flush=True)
    return results


def run_mnist(data: Path, out: Path, *, quick: bool = False) -> dict[str, Any]:
    """The bundled `digits` model on MNIST test images, patches inserted and removed."""
    model = whence.load("digits")
    images = load_mnist(data)
    results: dict[str, Any] = {}
    for method in METHODS:
        start = time.time()
        count = 12 if quick else (40 if method in SLOW else 400)
        try:
            judged = whence.evaluate(
                model, [(r["image"], r["label"]) for r in images], [method], ["auac", "au_mse"], target="true", fill="black",
                limit=count, seed=0, progress=False,
            )  # fmt: skip
        except (whence.WhenceError, ImportError) as error:
            results[method] = {"error": str(error)}
            print(f"  {method}: {error}", flush=True)
            continue
        results[method] = {
            "n": count,
            "seconds": round(time.time() - start, 1),
            **{m: [judged.value(method, m), *judged.interval(method, m)] for m in ("auac", "au_mse")},
        }
        print(f"  {method:24} {results[method]}", flush=True)
    row = {
        "task": "MNIST",
        "note": "patches of 4×4 pixels",
        "model": "digits",
        "results": results,
        "versions": versions(),
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "ali-mnist-digits.json").write_text(json.dumps(row, indent=1))
    return row


def versions() -> dict[str, str]:
    import platform

    import transformers

    return {
        "whence": whence.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu",
    }
