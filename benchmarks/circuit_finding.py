"""Do estimates of patching find the circuit? `python -m benchmarks.circuit_finding [--model DIR]`

The circuit of `training/planted.py` is known: AUROC says how well each method ranks its two heads above the six others.
Of a model of `training/train_ioi.py` (`--model`) nobody knows the circuit. There, and here too, the heads that a method
ranks highest are kept, all others get the values of the corrupt run, and CPR and CMD [MIB, Mueller et al. 2025] say how
much of the model that leaves, over all numbers of heads. The same for edges, over the shares of MIB. Intervals are of
questions, drawn with replacement; the ranking stays.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

import whence
from benchmarks.patching import PARTWAY, PATH, RECIPES, SEED, STEPS, made_up
from training.names_and_years import later, receiver
from training.planted import CIRCUIT, EDGES, Induction, question
from whence.core.recipe import recipes
from whence.evaluation.circuits import SHARES, auroc, circuit_of, cmd, cpr, faithfulness
from whence.methods.edges import Edges
from whence.methods.partway import BESIDE, Partway
from whence.methods.patching import TwoRuns
from whence.results.bootstrap import Estimate, estimate

__all__ = ["Judged", "judged", "judged_edges", "main"]

TRUTH, CHANCE = "true patching", "random"
RESAMPLES = 1000


class Judged(NamedTuple):
    """A row of a table: each number with its interval over questions."""

    method: str
    auroc: Estimate | None
    cpr: Estimate
    cmd: Estimate


def judged(model: Any, asked: list[tuple[Any, Any, Any]], planted: np.ndarray | None = None) -> list[Judged]:
    """Rankings of heads, each the mean over all questions, and the circuits that are made of them."""
    importance: dict[str, list[np.ndarray]] = {}
    plain = []
    for clean, corrupt, target in asked:
        pair = [model.encode(item)[0][0] for item in (clean, corrupt)]
        for name, recipe in RECIPES.items():
            runs = TwoRuns(model, *pair, target, kinds=["heads"], recipe=recipe)
            importance.setdefault(name, []).append(-runs.estimated("heads"))
        plain.append(TwoRuns(model, *pair, target, kinds=["heads"], beside=BESIDE, recipe=recipes["gi"]))
        importance.setdefault(PATH, []).append(-plain[-1].along(["heads"], STEPS)["heads"])
        importance.setdefault(PARTWAY, []).append(-Partway(plain[-1], STEPS).effects(["heads"])["heads"])
        importance.setdefault(TRUTH, []).append(-plain[-1].true_effects("heads"))
    count = importance[TRUTH][0].size
    shares = [n / count for n in range(count + 1)]
    return _rows(
        importance,
        lambda keep: np.stack([runs.scored({"heads": torch.from_numpy(~keep)}) for runs in plain]),
        shares,
        planted,
    )


def judged_edges(model: Any, asked: list[tuple[Any, Any, Any]], planted: np.ndarray | None = None) -> list[Judged]:
    """The same for edges between the input, heads, MLPs and the target."""
    importance: dict[str, list[np.ndarray]] = {}
    plain = []
    for clean, corrupt, target in asked:
        pair = [model.encode(item)[0][0] for item in (clean, corrupt)]
        for name, recipe in RECIPES.items():
            runs = TwoRuns(model, *pair, target, kinds=["edges"], recipe=recipe)
            importance.setdefault(name, []).append(-Edges(runs).estimated())
        plain.append(Edges(TwoRuns(model, *pair, target, kinds=["edges"], beside=BESIDE, recipe=recipes["gi"])))
        importance.setdefault(PATH, []).append(-plain[-1].along(STEPS))
        importance.setdefault(PARTWAY, []).append(-Partway(plain[-1].runs, STEPS).effects([], plain[-1])["edges"])
        importance.setdefault(TRUTH, []).append(-plain[-1].true_effects(np.isfinite(importance[PATH][-1])))
    return _rows(importance, lambda keep: np.stack([edges.scored(keep) for edges in plain]), SHARES, planted)


def _rows(
    importance: dict[str, list[np.ndarray]],
    scored: Callable[[np.ndarray], np.ndarray],
    shares: Sequence[float],
    planted: np.ndarray | None,
) -> list[Judged]:
    """`scored`: circuits (way, …) to scores (question, way)."""
    there, draw = np.isfinite(importance[TRUTH][0]), np.random.default_rng(0)
    importance[CHANCE] = [np.where(there, draw.normal(size=there.shape), np.nan) for _ in importance[TRUTH]]
    made = []
    for name, found in importance.items():
        mean = np.mean(found, axis=0)
        scores = scored(np.stack([circuit_of(mean, share) for share in shares]))
        right = None
        if planted is not None:
            each = np.array([[auroc(own, planted)] for own in found])
            right = estimate(each, np.ones_like(each), resamples=RESAMPLES)
        made.append(Judged(name, right, _area(cpr, shares, scores), _area(cmd, shares, scores)))
    return made


def _area(measure: Callable[..., float], shares: Sequence[float], scores: np.ndarray) -> Estimate:
    """CPR or CMD of mean scores (question, way), and of questions drawn with replacement."""

    def of(chosen: np.ndarray) -> float:
        mean = chosen.mean(0)
        return measure(shares, [faithfulness(score, mean[0], mean[-1]) for score in mean])

    draw = np.random.default_rng(0)
    drawn = [of(scores[draw.integers(0, len(scores), len(scores))]) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(of(scores), float(low), float(high), len(scores))


def table(rows: list[Judged]) -> str:
    shown = lambda e: "" if e is None else f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"
    lines = ["| method | AUROC ↑ | CPR ↑ | CMD ↓ |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {r.method} | {shown(r.auroc)} | {shown(r.cpr)} | {shown(r.cmd)} |" for r in rows)])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a folder of training/train_ioi.py")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=SEED, help="of the texts for --model")
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
            found = [tuple(one) for one in made_up(model, make, options.prompts, options.seed)]
            print(f"{title}, heads:\n\n{table(judged(model, found))}\n", flush=True)
            print(f"{title}, edges:\n\n{table(judged_edges(model, found))}\n", flush=True)


if __name__ == "__main__":
    main()
