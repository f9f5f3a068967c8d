"""Five questions to every specimen: is the forward pass unchanged, is relevance conserved, does a batch equal a loop,
does padding change nothing, and does `whence.explain` say so of the model's own answer."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

import whence
from whence.core.batch import Batch
from whence.core.propagation import Propagation, propagate
from whence.core.recipe import Recipe, recipes
from whence.models.plain import PlainModule
from zoo.build import Specimen
from zoo.inputs import Inputs

QUESTIONS = {"forward": 1e-5, "conservation": 1e-3, "batch": 1e-4, "padding": 1e-3, "explain": 1e-3}
"""Largest relative errors allowed, float32. Batch and padding compare sums of different order, by other kernels."""
CANNOT_BE_BUILT = "can't be built"
PAD = 3
"""Tokens of padding."""
LOST = ("unruled", "activation", "norm", "product")
"""Sinks that are no constants of the model: what ends there is not conserved."""


@dataclass(frozen=True)
class Verdict:
    """Relative errors of one specimen; NaN where a question does not apply."""

    task: str
    model_type: str
    forward: float = math.nan
    conservation: float = math.nan
    batch: float = math.nan
    padding: float = math.nan
    explain: float = math.nan
    unruled: dict[str, int] = field(default_factory=dict)
    reason: str = ""

    @property
    def passed(self) -> bool:
        return not self.reason and not self.failures()

    @property
    def is_built(self) -> bool:
        return not self.reason.startswith(CANNOT_BE_BUILT)

    def failures(self) -> list[str]:
        return [name for name, limit in QUESTIONS.items() if getattr(self, name) > limit]


class Questions:
    """One score of a specimen, explained in several ways."""

    def __init__(self, specimen: Specimen, recipe: Recipe):
        self.specimen, self.recipe = specimen, recipe
        self.sources = explained(specimen.inputs)
        with torch.no_grad():
            self.outputs = specimen.forward(specimen.inputs)
            self.plain = specimen.scores(self.outputs)
        # The score that is furthest from zero for both examples: errors are relative to it.
        self.chosen = int(self.plain.abs().amin(0).argmax())
        with torch.no_grad():
            self.alone = [float(self.target(alone(specimen, n))) for n in range(2)]
            """What the model says of each example if there is no other."""

    @property
    def mixes(self) -> bool:
        """Whether the plain model's own answer depends on the other example of its batch."""
        together = self.plain[:, self.chosen].tolist()
        limit = QUESTIONS["batch"] / 10
        return any(abs(a - b) > limit * abs(a) for a, b in zip(self.alone, together, strict=True))

    def target(self, outputs: Any, padding: int = 0) -> Tensor:
        return self.specimen.scores(outputs, padding)[:, self.chosen]

    def propagated(self, inputs: Inputs, padding: int = 0) -> Propagation:
        batch = Batch.of(inputs, *self.sources)
        return propagate(
            self.specimen.forward, batch, target=lambda o: self.target(o, padding), recipe=self.recipe
        )  # fmt: skip


def check(specimen: Specimen, recipe: Recipe = recipes["exact"]) -> Verdict:
    """Put the five questions to one specimen."""
    asked = Questions(specimen, recipe)
    whole = asked.propagated(specimen.inputs)
    singles = [asked.propagated({k: v[n : n + 1] for k, v in specimen.inputs.items()}) for n in range(2)]
    return Verdict(
        specimen.task,
        specimen.model_type,
        forward=_forward(asked, whole),
        conservation=max(_conservation(single) for single in singles),
        batch=_batch(asked, whole, singles),
        padding=_padding(asked, singles[0]),
        explain=_explain(asked, singles),
        unruled=whole.unruled | dict.fromkeys(whole.bypasses, 1),
    )


def explained(inputs: Inputs) -> tuple[str, ...]:
    """Text, and whatever is given in numbers; masks, places and sizes only say how to read these."""
    names = ("input_ids", "decoder_input_ids", "inputs")
    found = [n for n, v in inputs.items() if n in names or (v.is_floating_point() and "mask" not in n)]
    return tuple(found) or tuple(inputs)[:1]


def relative(a: Tensor, b: Tensor, scale: float | None = None) -> float:
    """‖a - b‖ / ‖b‖, or to a scale of its own; infinite when something is not finite."""
    size = float(b.detach().norm()) if scale is None else scale
    error = float((a.detach() - b.detach()).norm()) / max(size, 1e-12)
    return error if math.isfinite(error) else math.inf


def numbers_of(outputs: Any) -> Tensor:
    """Every number that a model returns, in one row."""
    found = [v.detach().flatten() for v in outputs.values() if isinstance(v, Tensor) and v.is_floating_point()]
    return torch.cat(found).nan_to_num(0.0, 0.0, 0.0)


def of_all(found: Propagation) -> float:
    """The size of all relevance: of two inputs one may have next to none."""
    return math.hypot(*(float(r.norm()) for r in found.relevance.values()))


def _forward(asked: Questions, whole: Propagation) -> float:
    """Outputs under the recipe against the plain model's; in float64 where float32 rounds more than is allowed."""
    error = relative(numbers_of(whole.outputs), numbers_of(asked.outputs))
    if error <= QUESTIONS["forward"]:
        return error
    wide = {k: v.double() if v.is_floating_point() else v for k, v in asked.specimen.inputs.items()}
    specimen = replace(asked.specimen, model=copy.deepcopy(asked.specimen.model).double(), inputs=wide)
    try:
        again = Questions(specimen, asked.recipe)
        return relative(numbers_of(again.propagated(wide).outputs), numbers_of(again.outputs))
    except RuntimeError:  # it makes float32 of its own
        return error


def _batch(asked: Questions, whole: Propagation, singles: list[Propagation]) -> float:
    """Relevance in a batch against that of each example alone. Where the model itself says something else of an example
    in a batch, explanations can't do better."""
    if asked.mixes:
        return math.nan
    return max(
        relative(torch.cat([s.relevance[name] for s in singles]), whole.relevance[name], of_all(whole))
        for name in asked.sources
    )


def _conservation(single: Propagation) -> float:
    kept = single.inputs + sum(v for k, v in single.sinks.items() if k not in LOST)
    return float(((kept - single.target).abs() / single.target.abs()).max())


def _explain(asked: Questions, singles: list[Propagation]) -> float:
    """`whence.explain` of both examples against the model called by hand, the receipt, and the engine's relevance.

    Pictures whose patches stand in one line are explained one at a time, by the model's own adapter.
    """
    specimen = asked.specimen
    if specimen.flat:
        rows = [specimen.given({k: v[n : n + 1] for k, v in specimen.inputs.items()}) for n in range(2)]
        found = [whence.explain(specimen.model, row, asked.recipe, asked.target, progress=False) for row in rows]
    else:
        door = PlainModule(specimen.model)
        found = whence.explain(door, specimen.inputs, asked.recipe, asked.target, progress=False)
    errors = []
    for n, (exp, single) in enumerate(zip(found, singles, strict=True)):
        hand = asked.alone[n] if specimen.flat or asked.mixes else float(asked.plain[n, asked.chosen])
        own = [exp.target_score - hand, exp.conservation.error]
        if not specimen.flat:  # there the tokens that hold a picture's place are no features
            own.append(float(exp.scores.sum()) - float(single.inputs[0]))
        errors += [abs(e / hand) for e in own]
    return max(errors)


@torch.no_grad()
def alone(specimen: Specimen, n: int) -> Any:
    """What the model returns for one of the examples."""
    return specimen.forward({k: v[n : n + 1] for k, v in specimen.inputs.items()})


def _padding(asked: Questions, single: Propagation) -> float:
    """Explain the first example with padding on the right; its own tokens must not notice."""
    specimen = asked.specimen
    inputs = {k: v[:1] for k, v in specimen.inputs.items()}
    name = next((n for n in ("input_ids", "inputs", "input_features") if n in inputs), "")
    if "attention_mask" not in inputs or not name or inputs[name].shape[:-1] != inputs["attention_mask"].shape[:-1]:
        return math.nan
    length = inputs[name].shape[-1]
    padded = {k: _padded(specimen, k, v, length) for k, v in inputs.items()}
    with torch.no_grad():
        written = specimen.scores(specimen.forward(inputs))
    places = PAD if specimen.task in ENDS and "decoder_input_ids" not in inputs else 0
    if not _same_when_padded(specimen, padded, places, written):
        return math.nan
    result = asked.propagated(padded, places)
    own, rest = result.relevance[name][..., :length], result.relevance[name][..., length:]
    size = float(single.target.abs()[0])
    return max(relative(own, single.relevance[name], of_all(single)), float(rest.abs().sum()) / size)


def _padded(specimen: Specimen, name: str, value: Tensor, length: int) -> Tensor:
    """An input with padding behind every text."""
    axis = 2 if value.dim() == 3 and value.shape[2] == length and name != "bbox" else 1
    if name.startswith("decoder") or value.is_floating_point() or value.dim() < 2 or value.shape[axis] != length:
        return value
    config = specimen.model.config
    pad = getattr(config, "pad_token_id", None)
    pad = pad if isinstance(pad, int) else getattr(config.get_text_config(), "pad_token_id", None) or 0
    tail = list(value.shape)
    tail[axis] = PAD
    fill = pad if name == "input_ids" else 0
    return torch.cat([value, torch.full(tail, fill, dtype=value.dtype)], axis)


ENDS = ("causal-lm", "seq2seq-lm", "image-text-to-text", "speech-seq2seq", "visual-question-answering")
"""Tasks whose explained token is the last."""


def _same_when_padded(specimen: Specimen, padded: Inputs, places: int, before: Tensor) -> bool:
    """Whether the plain model itself ignores padding; explanations can't do better than the model."""
    try:
        with torch.no_grad():
            after = specimen.scores(specimen.forward(padded), places)
    except Exception:  # a model that takes one length only
        return False
    return before.shape == after.shape and relative(after, before) < QUESTIONS["padding"] / 10
