"""Does the explanation depend on what the model has learned?"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import nn

from whence.evaluation.curves import eligible
from whence.evaluation.measures.method_agreement import similarity
from whence.evaluation.metric import AbstractMetric, Task, metrics
from whence.models.adapter import AbstractAdapter
from whence.results.measured import Measurement

__all__ = ["Randomization", "stages"]


@metrics.register("randomization")
@dataclass(frozen=True, kw_only=True)
class Randomization(AbstractMetric):
    """Rank correlation of explanations before and after the parameters are shuffled [Adebayo 2018, Sanity Checks].

    `all` shuffles every parameter; `cascading` goes from the output to the input, layer after layer, and takes the mean
    over the stages. The entries of each parameter are permuted, so that its distribution stays. Works on a copy of the
    module. Lower is better: an explanation that stays the same does not explain the model.
    """

    better = "lower"
    mode: Literal["all", "cascading"] = "all"
    correlation: Literal["spearman", "kendall"] = "spearman"
    order: Literal["signed", "absolute"] = "absolute"
    """Signs flip by chance when a model is shuffled; sizes do not."""
    special: Literal["kept", "counted"] = "kept"

    def variants(self, model: AbstractAdapter, seed: int) -> list[AbstractAdapter]:
        generator = torch.Generator().manual_seed(seed)
        groups = stages(model.module)
        if self.mode == "all":
            return [_shuffled(model, [name for group in groups for name in group], generator)]
        made, current = [], model
        for group in groups:
            current = _shuffled(current, group, generator)
            made.append(current)
        return made

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        counted = eligible(task.case, self.special)
        found = []
        for exp in task.variants:
            after = np.asarray(exp.scores, dtype=np.float64).reshape(-1)
            found.append(similarity(task.scores[counted], after[counted], self.correlation, self.order))
        known = [v for v in found if not np.isnan(v)]
        if not known:
            return {"": Measurement.missing()}
        return {"": Measurement((float(np.mean(known)),))}


def stages(module: nn.Module) -> list[list[str]]:
    """Names of parameters by layer, from the output to the input. Layers are what is numbered."""
    groups: dict[str, list[str]] = {}
    for name, _ in module.named_parameters():
        parts = name.split(".")
        number = next((n for n, part in enumerate(parts) if part.isdigit()), None)
        key = ".".join(parts[: number + 1]) if number is not None else ".".join(parts[:-1])
        groups.setdefault(key, []).append(name)
    return list(reversed(groups.values()))


def _shuffled(model: AbstractAdapter, names: list[str], generator: torch.Generator) -> AbstractAdapter:
    other = model.around(copy.deepcopy(model.module))
    held = dict(other.module.named_parameters())
    with torch.no_grad():
        for name in names:
            p = held[name]
            order = torch.randperm(p.numel(), generator=generator).to(p.device)
            p.copy_(p.reshape(-1)[order].reshape(p.shape))
    return other
