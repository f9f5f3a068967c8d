"""`whence.diagnose`: is attention an explanation of this model?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from whence.diagnostics.adversarial import Adversarial
from whence.diagnostics.attention_agreement import AttentionAgreement, Scores
from whence.diagnostics.counterfactual import Counterfactual
from whence.diagnostics.guided import Guided
from whence.diagnostics.question import AbstractQuestion, questions
from whence.diagnostics.subject import Subject
from whence.errors import InputError
from whence.methods.attention.attention_method import AbstractAttentionMethod
from whence.methods.explaining import as_method, explain_examples
from whence.methods.method import AbstractMethod, class_of
from whence.methods.method import methods as known_methods
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.loading import load
from whence.results import Explanation
from whence.results.diagnosis import Diagnosis
from whence.stamp import versions

__all__ = ["QUICK", "diagnose"]

SECTIONS = ("agreement", "counterfactual", "adversarial", "guided")
QUICK: dict[str, AbstractQuestion] = {
    "agreement": AttentionAgreement(),
    "counterfactual": Counterfactual(shuffles=20, head_shuffles=4),
    "adversarial": Adversarial(steps=60, rate=0.05, starts=2, examples=6),
    "guided": Guided(steps=60, adversary_rate=0.05, seeds=3),
}
"""Sections for a first look. Fewer shuffles, steps and starts than the papers'; the adversary takes larger steps."""


def diagnose(
    model: Any,
    data: Any,
    *,
    sections: Sequence[str | AbstractQuestion] = SECTIONS,
    limit: int | None = 40,
    seed: int = 0,
    steps: int | None = None,
    methods: Sequence[str] | None = None,
    truncate: bool = False,
    progress: bool | None = None,
) -> Diagnosis:
    """Is attention an explanation of this model on this data? A report with numbers and how to read them.

    >>> import whence
    >>> found = whence.diagnose("sentiment", ["a gem of a film", "so very dull"], sections=["counterfactual"], limit=1)
    >>> found["counterfactual"].rows[0]["examples"]
    1

    Arguments:
        model: a loaded model, a name to load, `(module, tokenizer)`, or a module.
        data: texts, or (text, label) pairs; encoded tensors for modules without a tokenizer.
        sections: names, or questions with options: `Adversarial(steps=100)`. Defaults are the papers' constants.
        limit: at most this many examples, chosen by `seed`; None for all.
        seed: of everything random.
        steps: of the adversary, in place of its 500.
        methods: attention methods whose rankings are compared as well; by default all.
        truncate: cut texts that are too long instead of raising an error.
        progress: show progress; by default when it takes longer than a moment.
    """
    adapter = load(model)
    chosen = [_question(s, seed, steps) for s in sections]
    if not chosen:
        raise InputError(f"no sections: choose from {', '.join(questions)}")
    scorers = _scorers(adapter, methods)
    subject = Subject.of(adapter, data, truncate=truncate).sample(limit, seed)
    for question in chosen:
        question.check(subject)
    made = []
    for question in chosen:
        extra: dict[str, Any] = {"scorers": scorers} if isinstance(question, AttentionAgreement) else {}
        made.append(question.ask(subject, progress=progress, **extra))
    return Diagnosis(adapter.name, len(subject), tuple(made), _stamp(adapter, seed))


def _question(section: str | AbstractQuestion, seed: int, steps: int | None) -> AbstractQuestion:
    question = questions[section]() if isinstance(section, str) else section
    known = {f.name for f in fields(question)}
    changes: dict[str, Any] = {"seed": seed} if "seed" in known else {}
    if steps is not None and "steps" in known:
        changes["steps"] = steps
    return replace(question, **changes)


def _scorers(model: AbstractAdapter, names: Sequence[str] | None) -> dict[str, Scores]:
    """Attention methods by name, as functions from examples to scores."""
    if names is None:
        names = sorted(n for n in known_methods if issubclass(class_of(n), AbstractAttentionMethod))
    return {name: _scorer(model, as_method(name)) for name in names}


def _scorer(model: AbstractAdapter, method: AbstractMethod) -> Scores:
    def score(examples: Sequence[Example]) -> list[np.ndarray]:
        made = explain_examples(model, method, examples)
        return [exp.scores.reshape(-1) for exp in made if isinstance(exp, Explanation)]  # errors are raised, not kept

    return score


def _stamp(model: AbstractAdapter, seed: int) -> dict[str, Any]:
    return {**model.facts(), **versions(), "seed": seed}
