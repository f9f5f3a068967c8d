"""Do estimates of patching find the circuit? `python -m benchmarks.circuit_finding [--model DIR]`

The circuit of `training/planted.py` is known: AUROC says how well each method ranks its two heads above the six others.
Of a model of `training/train_ioi.py` (`--model`) nobody knows the circuit. There, and here too, the heads that a method
ranks highest are kept, all others get the values of the corrupt run, and CPR and CMD [MIB, Mueller et al. 2025] say how
much of the model that leaves, over all numbers of heads. The same for edges, over the shares of MIB.
"""

from __future__ import annotations

import argparse
import random
from typing import Any, NamedTuple

import numpy as np
import torch

import whence
from benchmarks.patching import RECIPES, SEED, made_up
from training.names_and_years import later, receiver
from training.planted import CIRCUIT, EDGES, Induction, question
from whence.core.recipe import recipes
from whence.evaluation.circuits import SHARES, auroc, circuit_of, cmd, cpr, faithfulness
from whence.methods.edges import Edges
from whence.methods.patching import TwoRuns

__all__ = ["Judged", "judged", "judged_edges", "main"]

PATH, TRUTH, CHANCE = "`integrated_gradients`", "true patching", "random"
STEPS = 8


class Judged(NamedTuple):
    """A row of a table."""

    method: str
    auroc: float
    cpr: float
    cmd: float


def judged(model: Any, asked: list[tuple[Any, Any, Any]], planted: np.ndarray | None = None) -> list[Judged]:
    """Rankings of heads, each the mean over all questions, and the circuits that are made of them."""
    examples = [[model.encode(item)[0][0] for item in (clean, corrupt)] for clean, corrupt, _ in asked]
    importance: dict[str, list[np.ndarray]] = {}
    plain = []
    for pair, (_, _, target) in zip(examples, asked, strict=True):
        for name, recipe in RECIPES.items():
            runs = TwoRuns(model, *pair, target, kinds=["heads"], recipe=recipe)
            importance.setdefault(name, []).append(-runs.estimated("heads"))
        plain.append(TwoRuns(model, *pair, target, kinds=["heads"], recipe=recipes["gi"]))
        importance.setdefault(PATH, []).append(-plain[-1].along(["heads"], STEPS)["heads"])
        importance.setdefault(TRUTH, []).append(-plain[-1].true_effects("heads"))
    draw = np.random.default_rng(0)
    importance[CHANCE] = [draw.normal(size=importance[TRUTH][0].shape)]
    made = []
    for name, found in importance.items():
        mean = np.mean(found, axis=0)
        shares = np.arange(mean.size + 1) / mean.size
        circuits = torch.from_numpy(np.stack([circuit_of(mean, share) for share in shares]))
        scores = np.mean([runs.scored({"heads": ~circuits}) for runs in plain], axis=0)
        curve = [faithfulness(score, scores[0], scores[-1]) for score in scores]
        right = float("nan") if planted is None else float(np.mean([auroc(own, planted) for own in found]))
        made.append(Judged(name, right, cpr(shares, curve), cmd(shares, curve)))
    return made


def judged_edges(model: Any, asked: list[tuple[Any, Any, Any]], planted: np.ndarray | None = None) -> list[Judged]:
    """The same for edges between the input, heads, MLPs and the target."""
    importance: dict[str, list[np.ndarray]] = {}
    plain = []
    for clean, corrupt, target in asked:
        pair = [model.encode(item)[0][0] for item in (clean, corrupt)]
        for name, recipe in RECIPES.items():
            runs = TwoRuns(model, *pair, target, kinds=["edges"], recipe=recipe)
            importance.setdefault(name, []).append(-Edges(runs).estimated())
        plain.append(Edges(TwoRuns(model, *pair, target, kinds=["edges"], recipe=recipes["gi"])))
        importance.setdefault(PATH, []).append(-plain[-1].along(STEPS))
        importance.setdefault(TRUTH, []).append(-plain[-1].true_effects(np.isfinite(importance[PATH][-1])))
    draw, there = np.random.default_rng(0), np.isfinite(importance[PATH][0])
    importance[CHANCE] = [np.where(there, draw.normal(size=there.shape), np.nan)]
    made = []
    for name, found in importance.items():
        mean = np.mean(found, axis=0)
        circuits = np.stack([circuit_of(mean, share) for share in SHARES])
        scores = np.mean([edges.scored(circuits) for edges in plain], axis=0)
        curve = [faithfulness(score, scores[0], scores[-1]) for score in scores]
        right = float("nan") if planted is None else float(np.mean([auroc(own, planted) for own in found]))
        made.append(Judged(name, right, cpr(SHARES, curve), cmd(SHARES, curve)))
    return made


def table(rows: list[Judged]) -> str:
    lines = ["| method | AUROC ↑ | CPR ↑ | CMD ↓ |", "|---|---|---|---|"]
    for row in rows:
        right = "" if np.isnan(row.auroc) else f"{row.auroc:.3f}"
        lines.append(f"| {row.method} | {right} | {row.cpr:.3f} | {row.cmd:.3f} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a folder of training/train_ioi.py")
    parser.add_argument("--prompts", type=int, default=20)
    options = parser.parse_args()
    for sharp in (4.0, 8.0):
        draw = random.Random(SEED)
        questions = [question(draw) for _ in range(options.prompts)]
        asked = [(q.clean, q.corrupt, whence.contrast(q.right, q.wrong)) for q in questions]
        model = whence.load(Induction(sharp=sharp))
        print(f"planted, sharpness {sharp:g}, heads:\n\n{table(judged(model, asked, CIRCUIT))}\n")
        print(
            f"planted, sharpness {sharp:g}, edges:\n\n{table(judged_edges(model, asked, EDGES.planted))}\n", flush=True
        )
    if options.model:
        model = whence.load(options.model)
        for title, make in (("who gets it", receiver), ("which year is later", later)):
            found = [tuple(one) for one in made_up(model, make, options.prompts)]
            print(f"{title}, heads:\n\n{table(judged(model, found))}\n", flush=True)
            print(f"{title}, edges:\n\n{table(judged_edges(model, found))}\n", flush=True)


if __name__ == "__main__":
    main()
