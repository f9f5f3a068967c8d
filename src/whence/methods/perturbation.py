"""What methods that replace features share: which features there are, how they are replaced, and the scores then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example
from whence.models.scoring import FixedTarget, Scorer
from whence.models.targets import AbstractTarget
from whence.results import Prediction

__all__ = [
    "Features",
    "Original",
    "budget_of",
    "check_deletion",
    "check_fill",
    "features_of",
    "originals",
    "perturbed",
    "scorer_for",
]

FROM_TOKENIZER = {"mask", "unk"}
"""Fills that only a tokenizer knows."""


@dataclass(frozen=True)
class Features:
    """What of an input can be replaced: tokens, patches of an image, features of a plain input."""

    shape: tuple[int, ...]
    """Of the scores."""
    marks: tuple[int, ...]
    """Of the mask that the adapter takes; as many elements as `shape`."""
    special: np.ndarray
    """Which ones are special tokens."""

    @property
    def count(self) -> int:
        return int(np.prod(self.shape))


class Original(NamedTuple):
    """What the model says about the input as it is: the target decided there, and the prediction."""

    goal: FixedTarget
    prediction: Prediction


def features_of(model: AbstractAdapter, example: Example) -> Features:
    """The features of one input."""
    first = example.inputs[model.sources[0]]
    shape: tuple[int, ...]
    marks: tuple[int, ...]
    if example.tokens:
        shape = marks = (len(example.tokens),)
    elif hasattr(model, "grid"):
        shape = marks = tuple(model.grid(first.shape[-2:]))
    elif len(model.sources) > 1:
        raise InputError(
            f"this module has several inputs, {', '.join(model.sources)}, and a mask belongs to one of them. "
            "Explain it with a gradient method, method='integrated_gradients', or pass only one as a tensor"
        )
    else:  # (token, hidden) has a score per token, anything else one per element
        marks = tuple(first.shape[:1] if first.is_floating_point() and first.dim() == 2 else first.shape)
        shape = (int(np.prod(marks)),)
    special = np.zeros(int(np.prod(shape)), dtype=bool)
    special[: len(example.special)] = example.special
    return Features(shape, marks, special)


def perturbed(model: AbstractAdapter, example: Example, features: Features, keep: np.ndarray, fill: str) -> Example:
    """`example` with every feature whose `keep` is False replaced."""
    return model.masked(example, np.ascontiguousarray(keep).reshape(features.marks), fill)


def check_fill(model: AbstractAdapter, fill: str) -> None:
    """An error for a fill that only the tokenizer knows, where there is none."""
    if fill in FROM_TOKENIZER and hasattr(model, "tokenizer") and model.tokenizer is None:
        raise InputError(
            f"this model came without a tokenizer, so its {fill} token is not known. Use the padding token "
            "(fill='pad', baseline='pad'), or load it with a tokenizer: whence.load((module, tokenizer))"
        )


def check_deletion(example: Example, goal: FixedTarget) -> None:
    """An error for targets that are read at a token: deleting tokens moves them."""
    for term in goal.terms:
        # the place of the predicting token is kept relative to itself, as 0, and follows it
        follows = example.position is not None and term.place[0] == 0
        if term.field != "logits" or (len(term.place) > 1 and not follows):
            raise InputError(
                f"deleting tokens moves the others, and the target {goal.name!r} is read at one of them. "
                "Replace them instead: fill='mask'"
            )


def originals(
    model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget], scorer: Scorer
) -> list[Original]:
    """Targets and predictions of the inputs as they are."""
    with torch.inference_mode():
        outputs: Any = model.forward(model.collate(examples))
    model.check_finite(outputs)
    return [
        Original(scorer.fix(example, target), model.prediction(outputs, examples, n))
        for n, (example, target) in enumerate(zip(examples, targets, strict=True))
    ]


def budget_of(model: AbstractAdapter) -> int:
    """Features that go through the model at once."""
    return 65536 if model.device.type == "cuda" else 4096


def scorer_for(model: AbstractAdapter, examples: Sequence[Example]) -> Scorer:
    """A scorer whose batches fit: an image counts for as many tokens as it has patches."""
    longest = max(features_of(model, e).count for e in examples)
    fixed_size = all(e.length == 1 for e in examples)
    return Scorer(model, batch_tokens=max(1, budget_of(model) // longest) if fixed_size else None, progress=None)
