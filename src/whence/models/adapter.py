"""What every kind of model offers to methods: encode inputs, run a batch, name outputs, shape results."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence import cancel
from whence.errors import InputError, ModelError, NumericsError
from whence.models.examples import Example, pad
from whence.models.targets import (
    AbstractTarget,
    Class,
    Custom,
    Predicted,
    View,
    field_of,
    sum_of_terms,
    unknown_label,
)
from whence.results import Explanation, Prediction

__all__ = ["AbstractAdapter"]


class AbstractAdapter(ABC):
    """A model with what is needed to speak to it. The module itself is never changed."""

    task: ClassVar[str]

    def __init__(self, module: nn.Module, *, name: str = "", labels: Sequence[str] = ()):
        if module.training:
            raise ModelError(
                "the model is in training mode, where dropout makes every run different. Type: model.eval()"
            )
        self.module = module
        self.name = name or type(module).__name__
        self.labels = tuple(labels) or _labels_of(module)
        self._parameters = _parameters_of(module.forward)

    # -- what a kind of model must say -----------------------------------------------------------------------

    @property
    @abstractmethod
    def sources(self) -> tuple[str, ...]:
        """Names of the inputs that are explained."""

    @abstractmethod
    def encode(self, inputs: Any, **options: Any) -> tuple[list[Example], bool]:
        """Examples, and whether a single one was passed."""

    def default_target(self) -> AbstractTarget:
        return Predicted()

    # -- running ---------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return next((p.device for p in self.module.parameters()), torch.device("cpu"))

    @property
    def config(self) -> Any:
        return getattr(self.module, "config", None)

    @property
    def padding_side(self) -> str:
        return "right"

    @property
    def mixes_lengths(self) -> bool:
        """Whether examples of different lengths can stand in one batch: only where a mask says what is padding."""
        return "attention_mask" in self._parameters

    def fill(self) -> dict[str, int]:
        """What stands in the padding, per input."""
        return {}

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """A padded batch on the model's device."""
        batch = pad(examples, self.fill(), self.padding_side)
        return {k: v.to(self.device) for k, v in batch.items()}

    def forward(self, batch: dict[str, Any]) -> Any:
        """The model's outputs. Caches are off: they would keep state between layers that no gradient passes."""
        cancel.check()
        extra = {"use_cache": False} if "use_cache" in self._parameters else {}
        return self.module(**batch, **extra)

    # -- perturbing ------------------------------------------------------------------------------------------

    def masked(self, example: Example, keep: np.ndarray, fill: str = "mask") -> Example:
        """`example` with every feature whose `keep` is False replaced. What `fill` may be depends on the model."""
        raise InputError(f"inputs of a {self.task} model can't be perturbed feature by feature")

    # -- targets ---------------------------------------------------------------------------------------------

    def target(self, choice: Any) -> AbstractTarget:
        """What the user passed as `target=`, as a target."""
        if choice is None:
            return self.default_target()
        if isinstance(choice, AbstractTarget):
            return choice
        if callable(choice):
            return Custom(choice)
        if isinstance(choice, (int, str, np.integer)):
            return Class(choice if isinstance(choice, str) else int(choice))
        raise InputError(
            f"can't explain target {choice!r}: pass a class index, a label, "
            "whence.contrast(a, b), whence.span(), or a function of the outputs"
        )

    def score(
        self, outputs: Any, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> tuple[Tensor, list[str]]:
        """One score per example, and their names."""
        if isinstance(targets[0], Custom):
            scores = targets[0].function(outputs)
            return scores.reshape(len(examples)), [targets[0].name] * len(examples)
        chosen = [t.terms(self.view(outputs, examples, n)) for n, t in enumerate(targets)]
        return sum_of_terms(outputs, [terms for terms, _ in chosen]), [name for _, name in chosen]

    def view(self, outputs: Any, examples: Sequence[Example], n: int) -> View:
        example = examples[n]
        shift = self.shift(examples, n)
        return View(
            outputs=lambda field: field_of(outputs, field)[n].detach().float(),
            labels=self.labels,
            spell=self.spell,
            find=self.find,
            position=None if example.position is None else example.position + shift,
            continuation=example.continuation,
            text=example.text or "",
        )

    def shift(self, examples: Sequence[Example], n: int) -> int:
        """How far padding moved the tokens of example `n`."""
        return 0

    def spell(self, index: int) -> str:
        return self.labels[index] if index < len(self.labels) else f"class {index}"

    def find(self, label: str) -> int:
        if label in self.labels:
            return self.labels.index(label)
        lowered = [known.lower() for known in self.labels]
        if label.lower() in lowered:
            return lowered.index(label.lower())
        raise unknown_label(label, self.labels)

    # -- results ---------------------------------------------------------------------------------------------

    def predictions(self, outputs: Any, examples: Sequence[Example]) -> list[Prediction]:
        """What the model said of each example; `prediction` for all, in few calls where each has a row of logits."""
        try:
            logits = field_of(outputs, "logits").detach().float()
        except InputError:
            return [Prediction()] * len(examples)
        if logits.dim() != 2 or any(e.position is not None for e in examples):
            return [self.prediction(outputs, examples, n) for n in range(len(examples))]
        top = logits.topk(min(10, logits.shape[1]))
        shares = self.probabilities(logits)
        likely = shares.gather(1, top.indices).tolist() if shares is not None else [()] * len(examples)
        return [
            Prediction(tuple(map(self.spell, best)), tuple(scores), tuple(p))
            for best, scores, p in zip(top.indices.tolist(), top.values.tolist(), likely, strict=True)
        ]

    def prediction(self, outputs: Any, examples: Sequence[Example], n: int) -> Prediction:
        """The classes and their scores, best first (at most ten)."""
        view = self.view(outputs, examples, n)
        try:
            logits = view.outputs("logits")
        except InputError:
            return Prediction()
        logits = logits if view.position is None else logits[view.position]
        if logits.dim() != 1:
            return Prediction()
        top = logits.topk(min(10, logits.shape[0]))
        shares = self.probabilities(logits)
        return Prediction(
            labels=tuple(self.spell(int(i)) for i in top.indices),
            scores=tuple(float(v) for v in top.values),
            probabilities=tuple(float(shares[i]) for i in top.indices) if shares is not None else (),
        )

    def probabilities(self, logits: Tensor) -> Tensor | None:
        kind = getattr(self.config, "problem_type", None)
        if kind == "regression" or logits.shape[-1] == 1:
            return None
        return logits.sigmoid() if kind == "multi_label_classification" else logits.softmax(-1)

    def scores_of(self, relevance: dict[str, Tensor], examples: Sequence[Example], n: int) -> np.ndarray:
        """Scores of example `n` from the relevance of a batch, padding cut away."""
        parts = []
        for name in self.sources:
            if name in relevance:
                row = relevance[name][n]
                length = examples[n].inputs[name].shape[0]
                shift = self.shift(examples, n) if not name.startswith("decoder") else 0
                parts.append(row[shift : shift + length].float().cpu().numpy())
        return np.concatenate(parts)

    def explanation(self, example: Example, **values: Any) -> Explanation:
        """An explanation of `example`."""
        return Explanation(
            tokens=example.tokens,
            offsets=example.offsets,
            word_ids=example.word_ids,
            special=example.special,
            sides=example.sides,
            text=example.text,
            image=example.image,
            **values,
        )

    def provenance(self) -> dict[str, Any]:
        config = self.config
        return {
            "model": self.name,
            "class": type(self.module).__name__,
            "revision": getattr(config, "_commit_hash", None),
            "dtype": str(next((p.dtype for p in self.module.parameters()), "")).removeprefix("torch."),
        }

    def check_finite(self, outputs: Any) -> None:
        """A clear error for NaN weights and overflow, in place of an explanation made of NaN."""
        try:
            logits = field_of(outputs, "logits")
        except InputError:
            return
        if torch.isfinite(logits).all() or (torch.isneginf(logits).any() and not torch.isnan(logits).any()):
            return
        broken = next((n for n, p in self.module.named_parameters() if not torch.isfinite(p).all()), None)
        if broken:
            raise NumericsError(f"the model's output is not finite: parameter {broken!r} holds NaN or infinity")
        if logits.dtype == torch.float16:
            raise NumericsError(
                "the model's output overflows in float16. Load it with dtype='bfloat16' or dtype='float32'"
            )
        raise NumericsError("the model's output is not finite, though its weights are: check the input values")


def _labels_of(module: nn.Module) -> tuple[str, ...]:
    names = getattr(getattr(module, "config", None), "id2label", None) or {}
    return tuple(str(names[key]) for key in sorted(names, key=int))


def _parameters_of(function: Any) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)
