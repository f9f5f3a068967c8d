"""Any nn.Module: encoded inputs in, a tensor of scores out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from whence.core.batch import FeatureKind, Source
from whence.data.frames import is_frame, names_of, values_of
from whence.errors import InputError
from whence.models.adapter import AbstractAdapter, Kind
from whence.models.example import Example, Features
from whence.models.padding import Beside
from whence.models.targets import field_of

__all__ = ["PlainModule"]

ALONE = "input"
"""The name of a tensor that was passed without one."""
TEXTS = ("input_ids", "decoder_input_ids")
"""What is read, and what a decoder has written so far: explained next to a picture or a sound."""
MIXES = "its examples mix"


class PlainModule(AbstractAdapter):
    """A module that takes tensors: by name (a dict) or a single one, with the batch first.

    Ids are explained through the embedding that looks them up, float inputs as they are. A float input
    (batch, token, hidden) gets one score per token. Flags, numbers and tensors without a batch axis are handed on.
    """

    task = "module"
    kind: ClassVar[Kind] = "module"

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        names = tuple(names_of(inputs)) if is_frame(inputs) else ()
        if names:  # each column is a feature
            inputs = np.array(values_of(inputs, names))
        if isinstance(inputs, (Tensor, np.ndarray)):
            inputs = {ALONE: inputs}
        if isinstance(inputs, Mapping):
            inputs = {k: self._numbers(v) if isinstance(v, np.ndarray) else v for k, v in inputs.items()}
        if not isinstance(inputs, Mapping) or not any(isinstance(v, Tensor) for v in inputs.values()):
            raise InputError(
                "a plain module takes tensors: a dict such as {'input_ids': ids}, one tensor or array, or a frame of "
                "numbers, with the batch first. "
                f"Got {type(inputs).__name__}."
            )
        given = {k: v.detach() if isinstance(v, Tensor) else v for k, v in inputs.items()}
        self._check_names(given)
        sources = _explained(given)
        count = given[sources[0].name].shape[0]
        rows, shared = self._rows(given, sources, count)
        lost = next((s.name for s in sources if s.name not in rows and given[s.name].dim() >= 3), None)
        if lost is not None:  # a picture, a sound
            raise InputError(
                f"{lost!r} has {given[lost].shape[0]} rows for {count} examples, so it can't be told what belongs to "
                "which, and it would have no scores. Wrap the module in one that takes it with the examples first"
            )
        sources = tuple(s for s in sources if s.name in rows)
        examples = [self._example({k: v[n] for k, v in rows.items()}, shared, sources) for n in range(count)]
        if names:
            examples = [replace(e, parts=(replace(e.parts[0], names=tuple(map(str, names))),)) for e in examples]
        return list(examples), count == 1

    def _numbers(self, array: np.ndarray) -> Tensor:
        """An array as a tensor; floats, which numpy keeps in double, in the precision of the weights."""
        if array.dtype.kind not in "biuf":
            raise InputError(f"a plain module takes numbers, and an array of {array.dtype} holds others")
        made = torch.tensor(array)
        return made.to(self.dtype) if array.dtype.kind == "f" else made

    def _check_names(self, given: Mapping[str, Any]) -> None:
        """An error for inputs that the module has no arguments for."""
        own = inspect.signature(self.module.forward).parameters
        if set(given) == {ALONE} or any(p.kind is p.VAR_KEYWORD for p in own.values()):
            return
        lost = next((name for name in given if name not in own), None)
        if lost is not None:
            known = ", ".join(map(repr, own))
            raise InputError(
                f"{type(self.module).__name__} has no argument {lost!r}: pass a dict by the names of its own, {known}"
            )

    def encode_one(self, item: Any, **options: Any) -> Example:
        raise InputError("a plain module takes tensors, all at once")

    def needs_weights(self, options: Mapping[str, Any]) -> bool:
        return True

    def _rows(
        self, given: dict[str, Any], sources: tuple[Source, ...], count: int
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Inputs with a row for each example, and those without. Where sizes leave it open, the module is asked."""
        first = sources[0].name
        rows = {k: v for k, v in given.items() if isinstance(v, Tensor) and v.dim() and v.shape[0] == count}
        certain = {first: rows[first]}
        if count == 1 or len(rows) == 1:
            return rows, {k: v for k, v in given.items() if k not in rows}
        with torch.no_grad():
            whole = _tensors(self.forward(_moved(given, self.device)))
            for choice in (rows, certain):
                shared = {k: v for k, v in given.items() if k not in choice}
                if self._same_alone(choice, shared, whole):
                    return choice, shared
            if self._mixes(given, first, rows, whole):
                self.known.facts[MIXES] = True
                return rows, {k: v for k, v in given.items() if k not in rows}
        raise InputError(
            f"can't tell which of {', '.join(map(repr, rows))} have the batch first: the module gives another answer "
            "for one row alone. Pass one example at a time"
        )

    def _same_alone(self, rows: dict[str, Tensor], shared: dict[str, Any], whole: list[Tensor]) -> bool:
        """Whether the first row alone has the answer that it has among all.

        Some outputs are for pairs of rows (how each text fits each picture): those have another shape, and say nothing.
        """
        try:
            alone = _tensors(self.forward(_moved({**{k: v[:1] for k, v in rows.items()}, **shared}, self.device)))
        except Exception:  # shapes that do not fit: then it was not so
            return False
        pairs = list(zip(alone, whole, strict=True)) if len(alone) == len(whole) else []
        alike = [(one, all_[:1]) for one, all_ in pairs if one.shape == all_[:1].shape]
        return bool(alike) and all(_close(one, first) for one, first in alike)

    def _mixes(self, given: dict[str, Any], first: str, rows: dict[str, Tensor], whole: list[Tensor]) -> bool:
        """Whether what the module says of a row depends on the other rows of the batch, and on nothing else.

        Among copies of itself a row must have the answer that it has alone, and another one than among the others.
        """
        copies = {k: v[:1].expand_as(v).contiguous() for k, v in rows.items()}
        try:
            among = _tensors(self.forward(_moved({**given, **copies}, self.device)))
            other = _tensors(self.forward(_moved({**given, first: copies[first]}, self.device)))
        except Exception:
            return False
        changed = any(a.shape == b.shape and not _close(a[:1], b[:1]) for a, b in zip(other, whole, strict=True))
        return changed and self._same_alone(rows, {k: v for k, v in given.items() if k not in rows}, among)

    def beside(self, examples: Sequence[Example]) -> Beside:
        return "alone" if MIXES in self.known.facts else super().beside(examples)

    def _example(self, row: dict[str, Tensor], shared: dict[str, Any], sources: tuple[Source, ...]) -> Example:
        return Example(row, tuple(_features(source, row[source.name]) for source in sources), shared=shared)

    def masked(self, example: Example, keep: np.ndarray, fill: str = "zero") -> Example:
        """Ids become 0, float features 0: a plain module has no mask token of its own."""
        inputs = dict(example.inputs)
        for part, own in zip(example.parts, example.slices(), strict=True):
            value = inputs[part.source.name]
            marks = torch.from_numpy(np.ascontiguousarray(keep[own], dtype=bool))
            marks = marks.reshape(*value.shape[: 1 if part.count == value.shape[0] else value.dim()])
            marks = marks.reshape(*marks.shape, *(1,) * (value.dim() - marks.dim()))
            inputs[part.source.name] = torch.where(marks, value, torch.zeros_like(value))
        return replace(example, inputs=inputs)

    def forward(self, inputs: dict[str, Any]) -> Any:
        with self.running():
            if set(inputs) == {ALONE} and next(iter(inspect.signature(self.module.forward).parameters), "") != ALONE:
                return self.module(inputs[ALONE])
            return self.module(**inputs)

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        return relevance.reshape(part.count, -1).sum(1) if relevance.numel() != part.count else relevance


def _features(source: Source, value: Tensor) -> Features:
    if not value.is_floating_point():
        names = tuple(str(i) for i in value.tolist()) if value.dim() == 1 else ()
        return Features(source, (value.numel(),), names)
    return Features(source, (value.shape[0] if value.dim() == 2 else value.numel(),))


def _moved(inputs: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {k: v.to(device) if isinstance(v, Tensor) else v for k, v in inputs.items()}


def _tensors(outputs: Any) -> list[Tensor]:
    """The numbers among a model's outputs: its logits, or where it has none, all that have a batch."""
    if isinstance(outputs, Tensor):
        return [outputs]
    named = outputs if isinstance(outputs, Mapping) else {}
    if isinstance(named.get("logits"), Tensor):
        return [named["logits"]]
    values = list(named.values()) if named else list(outputs) if isinstance(outputs, (tuple, list)) else []
    found = [v for v in values if isinstance(v, Tensor) and v.is_floating_point() and v.dim()]
    return found or [field_of(outputs, "logits")]


def _close(one: Tensor, other: Tensor) -> bool:
    """Equal but for rounding; minus infinity, at what is masked, equals itself."""
    differs = one != other
    if not differs.any():
        return True
    scale = float(other[other.isfinite()].abs().max())
    return float((one - other)[differs].abs().max()) <= 1e-3 * scale


def _explained(given: Mapping[str, Any]) -> tuple[Source, ...]:
    """Float inputs, or else the ids, or both where it reads text; masks, types and positions are not explained."""
    tensors = {k: v for k, v in given.items() if isinstance(v, Tensor) and v.dim() > 0}
    ids = [n for n, v in tensors.items() if not v.is_floating_point() and v.dtype != torch.bool]
    floats = [n for n, v in tensors.items() if v.is_floating_point() and "mask" not in n]
    words = [n for n in ids if "mask" not in n and "type" not in n and "position" not in n]
    if not (floats or words):
        raise InputError(f"nothing to explain among the inputs {sorted(given)}")
    chosen = floats or words
    texts = [n for n in TEXTS if n in ids]
    if texts:
        chosen = [*texts, *floats]
    return tuple(Source(n, _kind(tensors[n])) for n in chosen)


def _kind(value: Tensor) -> FeatureKind:
    if not value.is_floating_point() or value.dim() == 3:
        return "token"
    return "column" if value.dim() <= 2 else "pixel"
