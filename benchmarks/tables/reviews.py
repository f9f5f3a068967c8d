"""Movie-review rationales (Chefer et al. 2021), the conservation figure and the names experiment (Ali et al. 2022)."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import whence
from benchmarks.tables.ali import versions
from benchmarks.tables.measuring import kept
from benchmarks.tables.models import accuracy, fit, make
from benchmarks.tables.tasks import Task, load_movies, load_task

__all__ = ["run_reviews", "run_sst2_extras"]

METHODS = ["random", "attention_last", "rollout", "gae", "grad_sam", "partial_lrp", "transformer_attribution", "saliency",
           "gi", "ah_ln", "exact", "attn_lrp", "libragrad", "gim"]  # fmt: skip
ABLATIONS = ("none", "attention", "last_block", "first_block")


def run_reviews(data: Path, teacher: Path, out: Path, *, quick: bool = False) -> dict[str, Any]:
    """Token F1 of the most relevant words against human rationales, on reviews cut at 512 tokens."""
    from whence.methods.attention.chefer import TransformerAttribution

    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = {split: load_movies(data, split) for split in ("train", "test")}
    task = Task(
        "Movies", [(r["text"], r["label"]) for r in rows["train"]], [(r["text"], r["label"]) for r in rows["test"]],
        ("negative", "positive"), epochs=8, length=64 if quick else 512,
    )  # fmt: skip
    module, tokenizer = make("minilm", teacher, 2)
    training = fit("minilm", module, tokenizer, task, device, quick=quick)
    score = accuracy(module, tokenizer, task, device, limit=32 if quick else None)
    print(f"Movies: accuracy {score:.4f}", flush=True)
    tokenizer.model_max_length = task.length
    model = whence.load((module, tokenizer), task="text-classification")
    model.labels = task.labels
    ablations = [(f"transformer_attribution ({a})", TransformerAttribution(ablation=a)) for a in ABLATIONS[1:]]
    judged = whence.evaluate(
        model,
        rows["test"],
        [*METHODS, *ablations],
        ["token_f1"],
        truncate=True,
        limit=3 if quick else 199,
        progress=False,
        batch_tokens=4096,
    )
    row = {
        "accuracy": score, "training": training, "table": kept(judged), "versions": versions(),
        "truth": _truth(rows["test"], tokenizer, task.length),
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    (out / "reviews.json").write_text(json.dumps(row, indent=1))
    print(judged, flush=True)
    return row


def _truth(rows: list[dict[str, Any]], tokenizer: Any, length: int) -> dict[str, float]:
    """What the best word scores could reach: F1 of the marked words that the model sees, top 10 to 80; chance; cut."""
    reach, share, seen = [], [], []
    for row in rows:
        ends = tokenizer(row["text"], truncation=True, max_length=length, return_offsets_mapping=True)["offset_mapping"]
        inside = len(row["text"][: max(end for _, end in ends)].split())
        marks, visible = sum(row["rationale"]), sum(row["rationale"][:inside])
        reach.append(np.mean([2 * min(k, visible) / (k + marks) for k in range(10, 90, 10)]) if marks else np.nan)
        share.append(marks / len(row["rationale"]))
        seen.append(visible / marks if marks else np.nan)
    return {"ceiling": float(np.nanmean(reach)), "marked": float(np.mean(share)), "seen": float(np.nanmean(seen))}


def run_sst2_extras(data: Path, teacher: Path, out: Path, *, quick: bool = False) -> dict[str, Any]:
    """On the attention-only model of SST-2: Σ relevance against the logit, and the relevance of names."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    task = load_task("sst2", data)
    module, tokenizer = make("ali", teacher, 2)
    fit("ali", module, tokenizer, task, device, quick=quick)
    model = whence.load((module, tokenizer), task="text-classification")
    model.labels = task.labels
    row = {
        "accuracy": accuracy(module, tokenizer, task, device, limit=200 if quick else None),
        "conservation": _conservation(model, [t for t, _ in task.test[: 20 if quick else 400]]),
        "names": _names(model, data, 10 if quick else 300),
        "versions": versions(),
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "sst2-extras.json").write_text(json.dumps(row, indent=1))
    return row


def _conservation(model: Any, texts: list[str]) -> dict[str, Any]:
    """Per method: points (logit, Σ relevance of the inputs), their correlation and the mean distance."""
    found = {}
    for method in ("gi", "ah", "ln", "ah_ln", "exact", "attn_lrp"):
        results = whence.explain(model, texts, method, at="embedding", receipt="full", progress=False)
        logit = np.array([e.conservation.target for e in results])
        inputs = np.array([e.conservation.inputs for e in results])
        error = np.array([e.conservation.relative_error for e in results])
        found[method] = {
            "correlation": float(np.corrcoef(logit, inputs)[0, 1]),
            "distance": float(np.abs(logit - inputs).mean() / np.abs(logit).mean()),
            "error": float(error.max()),
            "points": [
                [round(float(a), 4), round(float(b), 4)] for a, b in zip(logit[:150], inputs[:150], strict=True)
            ],
        }
    return found


TEMPLATES = (
    "{} gives a performance that holds the film together .",
    "the film belongs to {} , who is in almost every scene .",
    "{} plays the lead , and the story never quite comes alive .",
    "a quiet drama directed by {} .",
)


def _names(model: Any, data: Path, count: int) -> dict[str, Any]:
    """The same sentence with names swapped: the relevance of the name for 'positive', by gender and origin."""
    groups = _name_groups(data, count)
    found: dict[str, Any] = {}
    for group, names in groups.items():
        texts = [t.format(n) for n in names for t in TEMPLATES]
        results = whence.explain(model, texts, "exact", "positive", progress=False)
        relevance, scores = [], []
        for exp, name in zip(results, (n for n in names for _ in TEMPLATES), strict=True):
            start = exp.text.index(name)
            inside = [i for i, (a, b) in enumerate(exp.offsets) if b > a and a >= start and b <= start + len(name)]
            relevance.append(float(exp.scores[inside].sum()))
            scores.append(exp.target_score)
        per_name = np.array(relevance).reshape(len(names), -1).mean(1)
        found[group] = {
            "names": len(names),
            "relevance": float(per_name.mean()),
            "sem": float(per_name.std(ddof=1) / np.sqrt(len(names))),
            "score": float(np.mean(scores)),
            "values": [round(float(v), 4) for v in per_name],
        }
    return {"groups": found, "tests": _tests(found), "templates": list(TEMPLATES)}


def _name_groups(data: Path, count: int) -> dict[str, list[str]]:
    path = data / "names" / "first_names_gender_origin.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [r for r in csv.reader(file, delimiter="\t") if len(r) >= 3]
    groups: dict[str, list[str]] = {"female": [], "male": []}
    origins: dict[str, list[str]] = {}
    for name, gender, places, *_ in rows:
        if not name.isascii() or not name.isalpha():
            continue
        if gender in ("F", "M"):
            groups["female" if gender == "F" else "male"].append(name)
        first = places.split(",")[0].split(";")[0].split(":")[0].strip()
        origins.setdefault(first, []).append(name)
    largest = sorted(origins, key=lambda o: -len(origins[o]))[:8]
    rng = np.random.default_rng(0)
    pick = lambda names: [str(n) for n in rng.permutation(names)[:count]]
    return {**{g: pick(n) for g, n in groups.items()}, **{f"origin {o}": pick(origins[o]) for o in largest}}


def _tests(found: dict[str, Any]) -> dict[str, float]:
    from scipy import stats

    gender = stats.mannwhitneyu(found["female"]["values"], found["male"]["values"])
    origin = stats.kruskal(*(g["values"] for name, g in found.items() if name.startswith("origin")))
    return {"gender_p": float(gender.pvalue), "origin_p": float(origin.pvalue)}
