"""Four questions to every specimen: is the forward pass unchanged, is relevance conserved, does a batch equal a
loop, does padding change nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from whence.core.batch import Batch
from whence.core.propagation import Propagation, propagate
from whence.core.recipe import Recipe, recipes
from zoo.build import Specimen

FORWARD, CONSERVATION, BATCH, PADDING = 1e-5, 1e-3, 1e-4, 1e-3
"""Largest relative errors allowed, float32. The last two compare sums of different order, taken by other kernels."""


@dataclass(frozen=True)
class Verdict:
    """Relative errors of one specimen; NaN where a question does not apply."""

    task: str
    model_type: str
    forward: float = math.nan
    conservation: float = math.nan
    batch: float = math.nan
    padding: float = math.nan
    unruled: dict[str, int] = field(default_factory=dict)
    reason: str = ""

    @property
    def passed(self) -> bool:
        return not self.reason and not self.failures()

    def failures(self) -> list[str]:
        limits = {"forward": FORWARD, "conservation": CONSERVATION, "batch": BATCH, "padding": PADDING}
        return [name for name, limit in limits.items() if getattr(self, name) > limit]


def check(specimen: Specimen, recipe: Recipe = recipes["exact"]) -> Verdict:
    """Put the four questions to one specimen."""
    model, inputs = specimen.model, specimen.inputs
    sources = _sources(inputs)
    with torch.no_grad():
        plain = logits_of(model(**inputs))
    chosen = _largest_logit(specimen.task, plain)

    def explain(batch: dict[str, Tensor], rows: slice, last: int = -1) -> Propagation:
        target = _target(specimen.task, chosen[rows], last)
        return propagate(lambda i: model(**i), Batch.of(batch, *sources), target=target, recipe=recipe)

    whole = explain(inputs, slice(None))
    singles = [explain({k: v[n : n + 1] for k, v in inputs.items()}, slice(n, n + 1)) for n in range(2)]
    return Verdict(
        specimen.task,
        specimen.model_type,
        forward=relative(logits_of(whole.outputs), plain),
        conservation=max(_conservation(single) for single in singles),
        batch=max(relative(torch.cat([s.relevance[name] for s in singles]), whole.relevance[name]) for name in sources),
        padding=_padding(specimen, singles[0], explain),
        unruled=whole.unruled | dict.fromkeys(whole.bypasses, 1),
    )


def logits_of(outputs: Any) -> Tensor:
    logits = outputs.logits if hasattr(outputs, "logits") else outputs[0]
    return logits[0] if isinstance(logits, tuple) else logits


def relative(a: Tensor, b: Tensor) -> float:
    """‖a - b‖ / ‖b‖; infinite when something is not finite."""
    error = float((a.detach() - b.detach()).norm() / b.detach().norm().clamp_min(1e-12))
    return error if math.isfinite(error) else math.inf


def _sources(inputs: dict[str, Tensor]) -> tuple[str, ...]:
    names = ("input_ids", "decoder_input_ids", "pixel_values", "inputs", "input_features", "input_values")
    return tuple(n for n in names if n in inputs) or tuple(n for n, v in inputs.items() if v.is_floating_point())[:1]


def _largest_logit(task: str, logits: Tensor) -> Tensor:
    """Per example the class whose logit is largest in size: a score well away from zero."""
    last = logits[:, -1] if task.endswith("lm") else logits
    return last.reshape(last.shape[0], -1).abs().argmax(-1)


def _target(task: str, chosen: Tensor, last: int) -> Callable[[Any], Tensor]:
    def target(outputs: Any) -> Tensor:
        logits = logits_of(outputs)
        logits = logits[:, last] if task.endswith("lm") else logits
        return logits.reshape(logits.shape[0], -1)[torch.arange(logits.shape[0]), chosen]

    return target


def _conservation(single: Propagation) -> float:
    kept = single.inputs + sum(
        v for k, v in single.sinks.items() if k not in ("unruled", "activation", "norm", "product")
    )
    return float(((kept - single.target).abs() / single.target.abs()).max())


def _padding(specimen: Specimen, single: Propagation, explain: Callable[..., Propagation]) -> float:
    """Explain the first example with three padding tokens on the right; its own tokens must not notice."""
    inputs = {k: v[:1] for k, v in specimen.inputs.items()}
    if "attention_mask" not in inputs or "input_ids" not in inputs:
        return math.nan
    config = specimen.model.config
    pad = getattr(config, "pad_token_id", None)
    pad = pad if isinstance(pad, int) else getattr(config.get_text_config(), "pad_token_id", None) or 0
    length = inputs["input_ids"].shape[1]
    padded = dict(inputs)
    for name, value in inputs.items():
        if name.startswith("decoder") or value.dim() < 2 or value.shape[1] != length:
            continue
        fill = pad if name == "input_ids" else 0
        tail = torch.full((1, 3, *value.shape[2:]), fill, dtype=value.dtype)
        padded[name] = torch.cat([value, tail], 1)
    decoder_only = specimen.task.endswith("lm") and "decoder_input_ids" not in inputs
    last = length - 1 if decoder_only else -1
    if not _same_when_padded(specimen, inputs, padded, last if decoder_only else None):
        return math.nan
    result = explain(padded, slice(0, 1), last)
    errors = [relative(result.relevance["input_ids"][:, :length], single.relevance["input_ids"])]
    errors.append(float(result.relevance["input_ids"][:, length:].abs().sum() / single.target.abs()[0]))
    return max(errors)


def _same_when_padded(
    specimen: Specimen, inputs: dict[str, Tensor], padded: dict[str, Tensor], last: int | None
) -> bool:
    """Whether the plain model itself ignores padding; explanations can't do better than the model."""
    try:
        with torch.no_grad():
            before, after = logits_of(specimen.model(**inputs)), logits_of(specimen.model(**padded))
    except Exception:  # a model that takes one length only
        return False
    before, after = (before[:, -1], after[:, last]) if last is not None else (before, after)
    return before.shape == after.shape and relative(after, before) < PADDING / 10
