"""Anything that explains: methods of whence, functions of the user's own, other libraries'.

>>> import whence
>>> from whence.evaluation import from_function
>>> def longest_word(model, text, target):                     # one score per token, or an Explanation
...     (example,), _ = model.encode(text)
...     return [len(token) for token in example.tokens]
>>> result = whence.evaluate("sentiment", ["a gem", "a dull film"], [from_function(longest_word)], ["auac"])
>>> result.methods
('longest_word',)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from whence.errors import InputError
from whence.evaluation.cases import Case
from whence.models.adapter import AbstractAdapter
from whence.results import Explanation

__all__ = ["Explainer", "explanation_of", "from_captum", "from_function", "from_quantus"]


@dataclass(frozen=True)
class Explainer:
    """A name and a function from model, cases and target classes to explanations."""

    name: str
    explain: Callable[[AbstractAdapter, Sequence[Case], Sequence[int]], Sequence[Explanation]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the explanations depend on; a resumed evaluation must have the same."""

    def __call__(self, model: AbstractAdapter, cases: Sequence[Case], targets: Sequence[int]) -> list[Explanation]:
        made = list(self.explain(model, cases, targets))
        if len(made) != len(cases):
            raise InputError(f"method {self.name!r} gave {len(made)} explanations for {len(cases)} inputs")
        return [_checked(model, self.name, exp, case) for exp, case in zip(made, cases, strict=True)]


def from_function(function: Callable[..., Any], name: str | None = None) -> Explainer:
    """`function(model, input, target)` returns an Explanation, or one score per token (or patch).

    `model` is the loaded model (`model.module` is the module), `input` what stands in the data, `target` a class index.
    """
    return _one_by_one(lambda model, case, target: function(model, case.raw, target), function, name)


def from_captum(attribute: Callable[..., Any], name: str | None = None, **options: Any) -> Explainer:
    """`attribute(inputs, target=…)` of a captum object; extra dimensions of its result are summed.

    ig = LayerIntegratedGradients(lambda ids: module(ids).logits, module.bert.embeddings)
    whence.evaluate(model, data, [whence.evaluation.from_captum(ig.attribute, "captum_ig"), "lrp"])

    The object holds its own module, so `randomization`, which shuffles a copy, can't judge it.
    """

    def call(model: AbstractAdapter, case: Case, target: int) -> Any:
        return attribute(_tensor(model, case), target=target, **options)[0]

    return _one_by_one(call, attribute, name)


def from_quantus(explain_func: Callable[..., Any], name: str | None = None, **options: Any) -> Explainer:
    """`explain_func(model, inputs, targets)` on numpy arrays with a batch axis, as Quantus has it."""

    def call(model: AbstractAdapter, case: Case, target: int) -> Any:
        inputs = _tensor(model, case).numpy(force=True)
        return np.asarray(explain_func(model.module, inputs, np.array([target]), **options))[0]

    return _one_by_one(call, explain_func, name)


def _tensor(model: AbstractAdapter, case: Case) -> torch.Tensor:
    return model.placed(_source(case), case.example.inputs[_source(case)][None])


def _source(case: Case) -> str:
    return case.example.parts[0].source.name


def _one_by_one(call: Callable[[AbstractAdapter, Case, int], Any], function: Any, name: str | None) -> Explainer:
    name = name or getattr(function, "__name__", type(function).__name__).strip("<>")

    def explain(model: AbstractAdapter, cases: Sequence[Case], targets: Sequence[int]) -> list[Explanation]:
        found = [call(model, case, target) for case, target in zip(cases, targets, strict=True)]
        return [
            f if isinstance(f, Explanation) else explanation_of(model, case, target, f, name)
            for f, case, target in zip(found, cases, targets, strict=True)
        ]

    return Explainer(name, explain, {"function": f"{getattr(function, '__module__', '')}.{name}"})


def explanation_of(model: AbstractAdapter, case: Case, target: int, scores: Any, method: str) -> Explanation:
    """Raw scores as an Explanation. (token, hidden) is summed to tokens, (channel, height, width) to patches."""
    array = scores.detach() if isinstance(scores, torch.Tensor) else torch.as_tensor(np.asarray(scores))
    array = array.float().cpu()
    if case.example.image is not None:
        array = _patches(model, case, array)
    else:
        while array.dim() > 1:
            array = array.sum(-1)
    array = array.reshape(-1)
    values: dict[str, Any] = {"scores": array.numpy(), "target": model.spelled(case.example, target), "method": method}
    if array.shape[0] != case.features:
        return Explanation(**values)  # perhaps special tokens were left out; whoever asked can tell
    return model.explanation(case.example, **values)


def _patches(model: AbstractAdapter, case: Case, array: torch.Tensor) -> torch.Tensor:
    height, width = case.example.inputs[_source(case)].shape[-2:]
    if array.shape[-2:] != (height, width):
        return array
    return model.by_feature(case.example.parts[0], array[None] if array.dim() == 2 else array)


def _checked(model: AbstractAdapter, name: str, exp: Explanation, case: Case) -> Explanation:
    """The explanation with a score for every feature; special tokens that were left out have none."""
    if not isinstance(exp, Explanation):
        raise InputError(
            f"method {name!r} returned {type(exp).__name__}, not an Explanation. "
            "Wrap functions that return scores: whence.evaluation.from_function(fn)"
        )
    if not np.isfinite(exp.scores).all():
        raise InputError(f"method {name!r} gave NaN or infinite scores for {str(case)[:60]!r}")
    if exp.scores.size == case.features:
        return exp
    special = case.example.special
    if special.any() and exp.scores.size == int((~special).sum()):
        full = np.zeros(case.features, dtype=np.float32)
        full[~special] = exp.scores
        kept: dict[str, Any] = {
            "target": exp.target,
            "target_score": exp.target_score,
            "method": exp.method,
            "options": exp.options,
        }
        return model.explanation(
            case.example, scores=full, prediction=exp.prediction, conservation=exp.conservation, stamp=exp.stamp, **kept
        )
    raise InputError(
        f"method {name!r} gave {exp.scores.size} scores for {case.features} features of {str(case)[:60]!r}"
        + (" (does it truncate as the evaluation does?)" if case.example.tokens else "")
    )
