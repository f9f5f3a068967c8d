"""The loop: explain, ask the model, judge, keep."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from whence.errors import InputError
from whence.evaluation.cases import Case, texts
from whence.evaluation.explainers import Explainer
from whence.evaluation.measurements import Found, Measurements
from whence.evaluation.metric import AbstractMetric, Task
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.scoring import Scorer
from whence.options import check
from whence.progress import track
from whence.results import Explanation
from whence.results.evaluation import Evaluation
from whence.results.measured import Axis, Measured

__all__ = ["TargetChoice", "run", "targets_of"]

TargetChoice = Literal["predicted", "true"]
ROUND = {"cpu": 1024, "cuda": 32768}
"""About how many perturbed inputs go through the model together: enough for full batches of every length."""
MEMORY = 256 * 2**20
"""Bytes that the perturbed inputs of a round and their outputs may take."""


def run(
    model: AbstractAdapter,
    cases: Sequence[Case],
    explainers: Sequence[Explainer],
    metrics: Mapping[str, AbstractMetric],
    *,
    target: TargetChoice = "predicted",
    seed: int = 0,
    resume: str | Path | None = None,
    progress: bool | None = None,
    batch_tokens: int | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Judge every explainer by every metric on every case."""
    names = [e.name for e in explainers]
    for metric in metrics.values():
        metric.check(model, cases, names)
    scorer = Scorer(model, batch_tokens=batch_tokens)
    originals = scorer.logits([case.example for case in cases])
    if originals.ndim != 2:
        raise InputError(f"metrics need one output per class; this model gives {originals.shape[1:]} for each input")
    targets = targets_of(cases, originals, target)
    settings = {
        "model": model.name,
        "examples": len(cases),
        "data": _fingerprint(cases),
        "target": target,
        "seed": seed,
        **(extra or {}),
        "methods": {e.name: dict(e.settings) for e in explainers},
        "metrics": {name: metric.settings() for name, metric in metrics.items()},
    }
    journal = Measurements(resume, settings)
    judge = _Judge(model, explainers, metrics, seed, batch_tokens)
    left = [n for n in range(len(cases)) if not journal.done(cases[n].index, names)]
    parts = list(_rounds(left, judge.size(cases, targets, originals, left)))
    for part in track(parts, "evaluating", len(left), map(len, parts), show=progress):
        journal.add(judge([cases[n] for n in part], [targets[n] for n in part], originals[part]))
    return _assembled(cases, names, metrics, journal, seed)


def targets_of(cases: Sequence[Case], originals: np.ndarray, target: str) -> list[int]:
    """The class that is explained, per case."""
    check("target", target, TargetChoice, "evaluate")
    if target == "predicted":
        return [int(n) for n in originals.argmax(-1)]
    without = next((case for case in cases if case.label is None), None)
    if without is not None:
        raise InputError(
            f"target='true' needs a label for every example, and example {without.index} has none. "
            "Pass pairs (text, label), or target='predicted'"
        )
    wrong = next((case for case in cases if not 0 <= (case.label or 0) < originals.shape[1]), None)
    if wrong is not None:
        raise InputError(
            f"example {wrong.index} has label {wrong.label}, but the model has {originals.shape[1]} classes"
        )
    return [int(case.label) for case in cases if case.label is not None]


class _Judge:
    """Measures a round of cases under every method and metric."""

    def __init__(
        self,
        model: AbstractAdapter,
        explainers: Sequence[Explainer],
        metrics: Mapping[str, AbstractMetric],
        seed: int,
        batch_tokens: int | None,
    ):
        self.model, self.explainers, self.metrics, self.batch_tokens = model, explainers, metrics, batch_tokens
        self.variants = {name: metric.variants(model, seed) for name, metric in metrics.items()}

    def __call__(self, cases: list[Case], targets: list[int], originals: np.ndarray) -> dict[tuple[int, str], Found]:
        tasks = self._tasks(cases, targets)
        asked: list[Example] = []
        spans = []
        for _, name, task in tasks:
            wanted = self.metrics[name].inputs(task)
            spans.append((len(asked), len(asked) + len(wanted)))
            asked += wanted
        # One scorer per round: the perturbed inputs of one case lie in one round, so none is computed twice.
        scorer = Scorer(self.model, batch_tokens=self.batch_tokens)
        answers = scorer.logits(asked) if asked else np.zeros((0, originals.shape[1]), dtype=np.float32)
        found: dict[tuple[int, str], Found] = {}
        for (n, name, task), (start, stop) in zip(tasks, spans, strict=True):
            verdict = self.metrics[name].judge(task, originals[n], answers[start:stop])
            held = found.setdefault((task.case.index, task.method), {})
            held |= {_column(name, suffix): m for suffix, m in verdict.items()}
        return found

    def _tasks(self, cases: list[Case], targets: list[int]) -> list[tuple[int, str, Task]]:
        made = {e.name: e(self.model, cases, targets) for e in self.explainers}
        others = {
            (metric, e.name): [e(variant, cases, targets) for variant in variants]
            for metric, variants in self.variants.items()
            for e in self.explainers
        }
        return [
            (n, metric, self._task(case, targets[n], n, e.name, made, others[metric, e.name]))
            for n, case in enumerate(cases)
            for e in self.explainers
            for metric in self.metrics
        ]

    def _task(
        self,
        case: Case,
        target: int,
        n: int,
        method: str,
        made: Mapping[str, list[Explanation]],
        variants: list[list[Explanation]],
    ) -> Task:
        others = {name: held[n] for name, held in made.items() if name != method}
        return Task(self.model, case, target, method, made[method][n], others, [v[n] for v in variants])

    def size(self, cases: Sequence[Case], targets: Sequence[int], originals: np.ndarray, left: Sequence[int]) -> int:
        """How many cases make a round: as many as fill the batches, and no more than fit in memory."""
        if not left:
            return 1
        n = max(left, key=lambda i: cases[i].example.cost)
        flat = self.model.explanation(cases[n].example, scores=np.zeros(cases[n].features, dtype=np.float32))
        task = Task(self.model, cases[n], targets[n], "", flat)
        each = sum(len(metric.inputs(task)) for metric in self.metrics.values()) * len(self.explainers)
        bytes_each = sum(v.numel() * v.element_size() for v in cases[n].example.inputs.values()) * 2
        bytes_each += originals.shape[1] * 4
        wanted = math.ceil(ROUND["cuda" if self.model.device.type == "cuda" else "cpu"] / max(8, each))
        affordable = MEMORY // max(1, bytes_each * each)
        return int(max(1, min(wanted, affordable)))


def _rounds(left: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(left), size):
        yield list(left[start : start + size])


def _column(metric: str, suffix: str) -> str:
    return metric + (suffix if not suffix or suffix.startswith(":") else f"_{suffix}")


def _fingerprint(cases: Sequence[Case]) -> str:
    """Of the data: a journal must not go on with other inputs."""
    digest = hashlib.sha256()
    for case in cases:
        digest.update(repr((case.index, case.label)).encode())
        digest.update(case.example.content())
    return digest.hexdigest()[:16]


def _assembled(
    cases: Sequence[Case],
    methods: Sequence[str],
    metrics: Mapping[str, AbstractMetric],
    journal: Measurements,
    seed: int,
) -> Evaluation:
    settings = journal.settings
    columns: dict[str, str] = {}
    axes: dict[str, Axis] = {}
    shown: dict[str, Any] = {}
    for row in journal.found.values():
        for column in row:
            owner = max((m for m in metrics if column.startswith(m)), key=len)
            metric, suffix = metrics[owner], column.removeprefix(owner).lstrip("_")
            columns[column] = metric.columns.get(suffix, metric.better)
            shown[column] = settings["metrics"][owner]
            if column == owner and (axis := metric.axis()) is not None:
                axes[column] = axis
    order = sorted(columns, key=lambda c: (":" in c, *_rank(c, list(metrics))))
    measured = {
        (method, column): Measured.of([journal.found[case.index, method][column] for case in cases])
        for method in methods
        for column in order
        if column in journal.found[cases[0].index, method]
    }
    return Evaluation(
        methods=tuple(methods),
        metrics=tuple(order),
        measured=measured,
        better=columns,
        axes=axes,
        settings={**settings, "metrics": shown},
        inputs=texts(cases),
        seed=seed,
    )


def _rank(column: str, names: list[str]) -> tuple[int, str]:
    owner = max((m for m in names if column.startswith(m)), key=len)
    return names.index(owner), column
