"""Why Gradient × Input ranks lower here than in Ali et al.: before or after the LayerNorm of the embeddings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import whence
from benchmarks.tables.ali import versions
from benchmarks.tables.measuring import kept
from benchmarks.tables.tasks import load_task

__all__ = ["run_embedding_norm"]


def run_embedding_norm(data: Path, out: Path, *, quick: bool = False) -> dict[str, Any]:
    """AUAC of G×I read at the word embeddings and at the output of the embeddings' LayerNorm, bundled `sentiment`."""
    model = whence.load("sentiment")
    methods = ["random", "gae", "gi", ("gi after LayerNorm", after_norm), "ah_ln"]
    task = load_task("sst2", data)
    limit = 6 if quick else 400
    judged = whence.evaluate(model, task.test, methods, ["auac"], protocol="ali", limit=limit, seed=0, progress=False)
    print(judged, flush=True)
    row = {"table": kept(judged), "versions": versions()}
    out.mkdir(parents=True, exist_ok=True)
    (out / "embedding-norm.json").write_text(json.dumps(row, indent=1) + "\n")
    return row


def after_norm(model: Any, text: str, target: int) -> np.ndarray:
    """Gradient × Input where the public code of Ali et al. reads it."""
    held: list[torch.Tensor] = []
    embeddings = model.module.base_model.embeddings
    handle = embeddings.register_forward_hook(lambda module, inputs, output: held.append(output))
    try:
        encoded = model.tokenizer(text, return_tensors="pt", truncation=True)
        ids, mask = (encoded[k].to(model.device) for k in ("input_ids", "attention_mask"))
        with torch.enable_grad():
            score = model.module(input_ids=ids, attention_mask=mask).logits[0, int(target)]
            (gradient,) = torch.autograd.grad(score, held)
    finally:
        handle.remove()
    return (held[0] * gradient).sum(-1)[0].detach().cpu().numpy()
