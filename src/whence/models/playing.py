"""Small batches on a GPU are played from recordings of the whole pass; the first of a size are computed as ever.

A recording is used only when it gave, for a batch it was not made from, what that batch gave by computing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whence.core.memory import current
from whence.core.propagation import Propagation, Receipt
from whence.core.recipe import Recipe
from whence.core.recording import Aim, CannotRecord, Guess, Key, Recording, slots_for
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import Example, ExampleBatch
from whence.models.targets import AbstractTarget, Custom, Term, field_of

__all__ = ["Pass", "Player", "may_play"]

SMALL = 2e13
"""Weights times tokens up to which a GPU waits for Python."""
LONGEST = 4096
"""Tokens of a row up to which passes are recorded: longer ones keep a GPU busy by themselves, and take its memory."""
SHARE = 0.1
"""Part of a GPU's memory that the recordings of a model may hold: the rest is for others."""
NEAR = {torch.float64: 1e-6, torch.float32: 1e-3}
HALF = 0.1
"""How far what is played may be from what was computed, over the largest of it. Other kernels may be at work, and half
precision rounds; a wrong recording is wrong by far."""


def may_play(model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]) -> bool:
    """Whether it is worth the while to record passes like this one, and can be done."""
    return (
        model.replays
        and current() in ("auto", "keep")
        and not any(isinstance(t, Custom) for t in targets)
        and max(e.cost for e in examples) <= LONGEST
        and sum(e.cost for e in examples) * model.size <= SMALL
    )


class Pass(NamedTuple):
    """A pass that may be on its way back."""

    outputs: Any
    names: list[str]
    """Of its targets."""
    read: Callable[[], Propagation]
    """Waits for the rest."""


class Player:
    """One batch and what is asked of it, for the recordings of its model."""

    def __init__(
        self,
        model: AbstractAdapter,
        batch: ExampleBatch,
        targets: Sequence[AbstractTarget],
        recipe: Recipe,
        receipt: Receipt,
    ):
        self.model, self.batch, self.recipe, self.receipt = model, batch, recipe, receipt
        self.scores = TargetScores(model, batch, targets)
        self._known = model.known
        self.takes_part = may_play(model, batch.rows, targets) and not batch.looked_up

    def play(self) -> Pass | None:
        """The pass from a recording; None where there is none that fits."""
        recordings = self.model.recordings
        if not self.takes_part:
            return None
        with recordings.lock:
            self._known = self.model.look_again()
            keyed = [(inputs, self._key(inputs)) for inputs in self._variants()]
            fits = ((inputs, recordings.find(key, self.batch.examples)) for inputs, key in keyed)
            inputs, recording = next((both for both in fits if both[1] is not None), ({}, None))
            if recording is None:
                return None
            try:
                return self._played(recording, inputs)
            except CannotRecord:
                return None

    def learn(self, computed: Propagation, terms: Sequence[Sequence[Term]]) -> None:
        """Record a pass of this size if it comes often, and compare it with what was computed for these terms."""
        recordings = self.model.recordings
        if not self.takes_part or self._tokens >= recordings.too_many:
            return
        with recordings.lock:
            if self.model.look_again() is not self._known:  # it left another model, which a recording would not do
                return
            variants = self._variants()
            rows = recordings.due(self._key(variants[0]), self.batch.examples)
            if not rows or not self._fits(computed, terms, rows):
                return
            for inputs in variants:
                recording = self._recorded(inputs, computed, rows)
                recordings.keep(self._key(inputs), rows, recording)
                if recording is not None:
                    return

    # -- inside ----------------------------------------------------------------------------------------------

    def _fits(self, computed: Propagation, terms: Sequence[Sequence[Term]], rows: int) -> bool:
        """Whether a recording for so many rows can be asked for these terms."""
        try:
            shapes = [tuple(field_of(computed.outputs, field).shape) for field in self.model.fields]
            return len(self._aims(terms, shapes)) <= slots_for(rows)
        except CannotRecord:
            return False

    def _variants(self) -> list[dict[str, Any]]:
        """The inputs without a mask that masks nothing, for which models have quicker kernels; and as they are."""
        whole = {s.mask for s in self.batch.sources if s.name not in self.batch.places}
        light = {name: value for name, value in self.batch.inputs.items() if name not in whole}
        return [light, self.batch.inputs] if len(light) < len(self.batch.inputs) else [light]

    def _key(self, inputs: dict[str, Any]) -> Key:
        rows, shapes = self._by_example, []
        for name, value in sorted(inputs.items()):
            shape = (tuple(value.shape[name in rows :]), value.dtype) if isinstance(value, Tensor) else repr(value)
            shapes.append((name, shape))
        chosen = (getattr(self.recipe, f.name) for f in fields(self.recipe))
        recipe = tuple(frozenset(value.items()) if isinstance(value, Mapping) else value for value in chosen)
        return self._known.number, recipe, self.receipt, tuple(shapes), torch.is_autocast_enabled("cuda")

    @property
    def _by_example(self) -> frozenset[str]:
        return frozenset(self.batch.rows[0].inputs)

    @property
    def _tokens(self) -> int:
        return sum(e.cost for e in self.batch.rows)

    def _recorded(self, inputs: dict[str, Any], computed: Propagation, rows: int) -> Recording | None:
        model, recordings = self.model, self.model.recordings
        tape = recordings.tape(model.device)
        before = tape.held()
        try:
            recording = Recording(
                model.forward,
                lambda outputs: [field_of(outputs, field) for field in model.fields],
                replace(self.batch, inputs=inputs),
                self.recipe,
                self.receipt,
                tape,
                self._by_example,
                rows,
            )
            played = self._played(recording, inputs).read()
        except Exception:  # whatever stood in the way, computing goes on as it did
            return None
        if tape.held() > max(before, SHARE * _whole(model.device)):
            recordings.too_many = self._tokens / self.batch.examples * rows
            if not len(recordings):
                recordings.clear()
            return None
        pairs = [(played.relevance[name], r) for name, r in computed.relevance.items()]
        pairs += [(played.target, computed.target), (played.inputs, computed.inputs)]
        return recording if all(_near(a, b, model.dtype) for a, b in pairs) else None

    def _played(self, recording: Recording, inputs: dict[str, Any]) -> Pass:
        near: dict[str, Tensor] = {}

        def choose(outputs: list[Tensor]) -> list[Aim]:
            near.update(zip(self.model.fields, outputs, strict=True))
            self.scores.choose(near)
            return self._aims(self.scores.terms, [tuple(value.shape) for value in outputs])

        read = recording.play(replace(self.batch, inputs=inputs), choose, self._guess(recording))
        return Pass(near, self.scores.names, lambda: replace(read(), outputs=near))

    def _guess(self, recording: Recording) -> Guess:
        """What will be chosen, as far as that is known before the model has run."""
        shapes = [(self.batch.examples, *value.shape[1:]) for value in recording.outputs]
        found = self.scores.foreseen(shapes[0])
        if found == "best" and recording.best is None:
            return None
        return self._aims(found, shapes) if isinstance(found, list) else found

    def _aims(self, terms: Sequence[Sequence[Term]], shapes: Sequence[tuple[int, ...]]) -> list[Aim]:
        """The terms of all targets, as the recording wants them."""
        places = {
            field: (n, shape, tuple(prod(shape[d + 1 :]) for d in range(len(shape))))
            for n, (field, shape) in enumerate(zip(self.model.fields, shapes, strict=True))
        }
        follows = self.model.follows is not None
        aims = []
        for n, own in enumerate(terms):
            for term in own:
                output, shape, strides = places[term.field]
                place = self.model.placed_in(self.batch, n, term.place) if follows else term.place
                aims.append(Aim(output, _flat(shape, strides, (n, *place)), n, term.weight))
        return aims


def _whole(device: torch.device) -> float:
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else float("inf")


def _flat(shape: tuple[int, ...], strides: tuple[int, ...], place: tuple[int, ...]) -> int:
    if len(place) != len(shape):
        raise CannotRecord("a term that is no single number")
    return sum([index % size * stride for index, size, stride in zip(place, shape, strides, strict=True)])


def _near(a: Tensor, b: Tensor, dtype: torch.dtype) -> bool:
    a, b = a.cpu().double(), b.cpu().double()
    return a.shape == b.shape and bool((a - b).abs().max() <= NEAR.get(dtype, HALF) * b.abs().max().clamp_min(1e-9))
