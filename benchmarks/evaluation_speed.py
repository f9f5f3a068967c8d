"""`whence.evaluate` against the loop of Ali et al. 2022, on the same work: `python -m benchmarks.evaluation_speed`.

Their loop, as in their public code: for each metric, each method and each sentence, run the model, explain, run the
model again, then once for each of eleven fractions; one input at a time, graphs kept. Both measure AUAC and AU-MSE with
their settings (UNK, special tokens counted, true label); the numbers must agree, or the benchmark stops.

The ratio says what the machine is bound by: on one core batches save the overhead of a call and repeated inputs save
whole calls, but the sums stay; on an accelerator one input at a time leaves nearly all of it idle.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import numpy as np
import torch

import whence
from benchmarks.timing import Series, sample, use_clock
from whence.data.labelled import opinions
from whence.methods.explaining import as_method
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.targets import Class
from whence.results.percents import percent

METHODS = ("gi", "ah", "ah_ln", "exact", "attn_lrp")
FRACTIONS = np.linspace(0.0, 1.0, 11)
CLOSE = 2e-3
"""Batches change float32 outputs in the last digits, and with them, rarely, the order of two near-equal scores."""


def main() -> None:
    options = _options()
    use_clock(options.clock)
    torch.manual_seed(0)
    model = whence.load("sentiment", device=options.device)
    rows = opinions()[:: max(1, 60 // options.examples)][: options.examples]
    data = [(row.input, row.label) for row in rows]
    results: dict[str, dict[str, np.ndarray]] = {}

    def theirs() -> None:
        results["loop"] = one_at_a_time(model, data)

    def ours() -> None:
        results["whence"] = in_batches(model, data)

    ours()  # warm up
    series = Series()
    for _ in range(options.rounds):
        before, loop, after = sample(ours), sample(theirs), sample(ours)
        series.ratios.append(2 * loop.seconds / (before.seconds + after.seconds))
        series.seconds.append(loop.seconds)
        series.disturbed.append(max(part.disturbed for part in (before, loop, after)))
    _check(results)
    print(f"{len(data)} sentences, {len(METHODS)} methods, AUAC and AU-MSE, {model.device}, {_threads()} threads")
    print(f"one at a time {np.median(series.seconds):.1f} s; whence {series} × faster")
    print(f"share of the cores that other processes had: {percent(max(series.disturbed), 0)}")


def one_at_a_time(model: AbstractAdapter, data: list[tuple[str, str]]) -> dict[str, np.ndarray]:
    """The authors' loop."""
    found: dict[str, list[float]] = {}
    for metric in ("auac", "au_mse"):
        for name in METHODS:
            for text, label in data:
                found.setdefault(f"{name} {metric}", []).append(_flipped(model, name, text, label, metric))
    return {key: np.array(values) for key, values in found.items()}


def _flipped(model: AbstractAdapter, name: str, text: str, label: str, metric: str) -> float:
    (example,), _ = model.encode(text)
    target = model.find(label)
    _logits(model, example)  # the authors run the model for its prediction before they explain
    (exp,) = as_method(name, receipt="short").explain(model, [example], [Class(target)])
    ids = example.inputs["input_ids"]
    unk = model.tokenizer.unk_token_id  # type: ignore[attr-defined]
    original = _logits(model, example)
    order = np.argsort(-exp.scores if metric == "auac" else np.abs(exp.scores), kind="stable")
    curve = []
    for fraction in FRACTIONS:
        chosen = order[: math.ceil(round(fraction * len(order), 9))]
        changed = torch.full_like(ids, unk) if metric == "auac" else ids.clone()
        for i in chosen:
            changed[i] = ids[i] if metric == "auac" else unk
        logits = _logits(model, replace(example, inputs={**example.inputs, "input_ids": changed}))
        if metric == "auac":
            shares = np.exp(logits - logits.max())
            curve.append(float(shares[target] / shares.sum()))
        else:
            curve.append(float(((original - logits) ** 2).sum()))
    return float(np.trapezoid(curve, FRACTIONS))


def _logits(model: AbstractAdapter, example: Example) -> np.ndarray:
    return model.run(model.collate([example])).logits[0].detach().cpu().double().numpy()


def in_batches(model: AbstractAdapter, data: list[tuple[str, str]]) -> dict[str, np.ndarray]:
    result = whence.evaluate(model, data, METHODS, ["auac", "au_mse"], protocol="ali", progress=False)
    return {f"{m} {metric}": result.values(m, metric) for m in METHODS for metric in ("auac", "au_mse")}


def _check(results: dict[str, dict[str, np.ndarray]]) -> None:
    for key, wanted in results["loop"].items():
        found = results["whence"][key]
        if not np.isclose(found.mean(), wanted.mean(), rtol=CLOSE, atol=CLOSE):
            raise SystemExit(f"{key}: {found.mean():.5f} in batches, {wanted.mean():.5f} one at a time")


def _threads() -> int:
    return torch.get_num_threads()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--device", default=None)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time on one thread")
    return parser.parse_args()


if __name__ == "__main__":
    main()
