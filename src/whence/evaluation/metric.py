"""What every metric is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np

from whence.errors import InputError
from whence.evaluation.cases import Case
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.options import Options
from whence.registry import Registry
from whence.results import Explanation
from whence.results.measured import Axis, Measurement

__all__ = ["AbstractMetric", "Need", "Task", "as_metric", "metrics", "probability"]

Need = Literal["mask", "rationale", "image", "methods"]


@dataclass(frozen=True)
class Task:
    """One explanation to judge, with all that a metric may look at."""

    model: AbstractAdapter
    case: Case
    target: int
    """The explained class."""
    method: str
    explanation: Explanation
    others: Mapping[str, Explanation] = field(default_factory=dict)
    """What the other methods say of the same case."""
    variants: Sequence[Explanation] = ()
    """What the method says of the same case under each of the metric's `variants` of the model."""

    @property
    def scores(self) -> np.ndarray:
        """One number per feature, float64, patches in rows."""
        return np.asarray(self.explanation.scores, dtype=np.float64).reshape(-1)


@dataclass(frozen=True, kw_only=True)
class AbstractMetric(Options, ABC):
    """A frozen set of switches; `inputs` asks the model, `judge` reads the answers."""

    better: ClassVar[Literal["higher", "lower", ""]] = "higher"
    """Which values are good."""
    columns: ClassVar[Mapping[str, str]] = {}
    """For metrics of several numbers: the name of each, and which values of it are good."""
    needs: ClassVar[tuple[Need, ...]] = ()

    @property
    def name(self) -> str:
        return next((n for n, made in metrics.items() if made is type(self)), type(self).__name__)

    def settings(self) -> dict[str, Any]:
        """The switches as plain values: printed with every number."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) not in (None, "")}

    def inputs(self, task: Task) -> list[Example]:
        """Perturbed inputs whose outputs are needed."""
        return []

    @abstractmethod
    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        """The verdict, by column ("" for the metric itself).

        `original` are the outputs for the case as it is (class,), `logits` those for `inputs` (input, class).
        """

    def axis(self) -> Axis | None:
        """Of the curve, for metrics that have one."""
        return None

    def variants(self, model: AbstractAdapter, seed: int) -> list[AbstractAdapter]:
        """Other versions of the model whose explanations are needed. The user's module is never changed."""
        return []

    def check(self, model: AbstractAdapter, cases: Sequence[Case], methods: Sequence[str]) -> None:
        """A clear error, before any work, where the data or the model lack what the metric needs."""
        for need in self.needs:
            if need == "methods" and len(methods) < 2:
                raise InputError(f"{self.name!r} compares methods: pass at least two, methods=['lrp', 'gi']")
            if need == "image" and any(case.example.image is None for case in cases):
                raise InputError(f"{self.name!r} is for images; for texts use 'aopc', 'auac' or 'lerf_morf'")
            if need in ("mask", "rationale"):
                self._check_column(need, cases)

    def _check_column(self, need: str, cases: Sequence[Case]) -> None:
        without = next((case for case in cases if getattr(case, need) is None), None)
        if without is not None:
            raise InputError(
                f"{self.name!r} needs a {need} for every example, and example {without.index} has none. "
                f"Pass dicts: {EXAMPLES[need]}"
            )


EXAMPLES = {
    "mask": "{'image': picture, 'label': 3, 'mask': array of (height, width) that is True on the object}",
    "rationale": "{'text': 'a dull plot', 'label': 0, 'rationale': [0, 1, 0]} with a mark per word, "
    "or 'rationale': ['dull'], or word spans [(1, 2)]",
}

metrics: Registry[type[AbstractMetric]] = Registry("metric")


def as_metric(metric: Any, **switches: Any) -> AbstractMetric:
    """A metric from its name or itself. Switches that a named metric does not have are not for it."""
    if isinstance(metric, AbstractMetric):
        return metric
    kind = metrics[metric]
    known = {f.name for f in fields(kind)}
    return kind(**{name: value for name, value in switches.items() if value is not None and name in known})


def probability(model: AbstractAdapter, logits: np.ndarray, target: int) -> np.ndarray:
    """The target's probability: softmax, sigmoid for multi-label models, the score itself for regression."""
    values = np.asarray(logits, dtype=np.float64)
    own: np.ndarray = values[..., target]
    if model.problem == "regression" or values.shape[-1] == 1:
        return own
    if model.problem == "multi":
        return np.asarray(1 / (1 + np.exp(-own)))
    highest = values.max(-1, keepdims=True)
    shares: np.ndarray = np.exp(own - highest[..., 0]) / np.exp(values - highest).sum(-1)
    return shares
