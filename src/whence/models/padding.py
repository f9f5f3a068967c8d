"""How examples may stand beside each other in a batch, measured and not guessed.

Padding must change nothing. Whether it does depends on the model: encoders that read their first token want it on the
right, some decoders on the left, models that mix neighbours can't have any, and a few can't have a batch at all. Asking
the model is the only way that is right for all: a short example alone, and beside another one, must give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from whence.core.batch import Places, Source
from whence.core.recording import even_length
from whence.models.example import Example, ExampleBatch

if TYPE_CHECKING:
    from whence.models.adapter import AbstractAdapter

__all__ = ["Beside", "lengthened", "measured", "padded", "shortened"]

Beside = Literal["right", "left", "equal", "alone"]
"""Examples of any length with padding on one side; only of one length; one by one."""
NEAR = {torch.float64: 1e-8, torch.float32: 1e-3}
HALF = 0.05
"""Largest relative difference that is rounding: sums of other sizes are taken by other kernels."""


def measured(model: AbstractAdapter, examples: Sequence[Example]) -> Beside:
    """What the model allows for examples like these."""
    shapes = {e.shape_key for e in examples}
    first = min(examples, key=lambda e: e.cost)
    if len(shapes) > 1:
        other = min((e for e in examples if e.shape_key != first.shape_key), key=lambda e: e.cost)
        for side in ("right", "left"):
            if _agrees(model, first, other, side):
                return side
    return "equal" if _agrees(model, first, _another(first), "right") else "alone"


def _another(example: Example) -> Example:
    """A different example of the same shape."""
    names = {part.source.name for part in example.parts}
    flipped = {k: v.flip(-1) if k in names and v.dim() else v for k, v in example.inputs.items()}
    return replace(example, inputs=flipped)


def _agrees(model: AbstractAdapter, one: Example, other: Example, side: Literal["right", "left"]) -> bool:
    """Whether the model says the same of `one` alone and beside `other`."""
    try:
        alone, beside = padded([one], model, side), padded([one, other], model, side)
        with torch.no_grad():
            short, long = model.run(alone), model.run(beside)
        pairs = [(model.own_output(short, alone, 0, f), model.own_output(long, beside, 0, f)) for f in model.fields]
    except Exception:  # some models refuse batches, or lengths that are not theirs; they are then not asked for them
        return False
    return all(_near(a, b) for a, b in pairs)


def _near(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape:
        return False
    limit = NEAR.get(a.dtype, HALF)
    a, b = a.cpu().double(), b.cpu().double()
    same = a == b  # masked classes may be at -inf
    gap = torch.where(same, 0.0, (a - b).abs())
    return bool(gap.max() <= limit * torch.where(a.isfinite(), a.abs(), 0.0).max().clamp_min(1e-9))


def lengthened(example: Example) -> Example | None:
    """The example with its last token once more, to see what padding does; None where it is no sequence of ids."""
    (part, *others) = example.parts
    ids = example.inputs[part.source.name]
    if others or ids.dim() != 1 or ids.is_floating_point():
        return None
    longer = {
        k: torch.cat([v, v[-1:]]) if v.dim() and v.shape[0] == ids.shape[0] else v for k, v in example.inputs.items()
    }
    return replace(example, inputs=longer)


def shortened(example: Example, length: int) -> Example | None:
    """The first tokens of a longer example; None where it is none, or no sequence of ids."""
    (part, *others) = example.parts
    ids = example.inputs[part.source.name]
    if others or ids.dim() != 1 or ids.is_floating_point() or ids.shape[0] <= length:
        return None
    cut = {k: v[:length] if v.dim() and v.shape[0] == ids.shape[0] else v for k, v in example.inputs.items()}
    left = replace(part, shape=(length,), names=(), offsets=(), word_ids=(), special=(), sides=(), places=None)
    return replace(example, inputs=cut, parts=(left,), rows=(length - 1,) if example.rows else (), written=())


def padded(
    examples: Sequence[Example], model: AbstractAdapter, side: Literal["right", "left"], *, even: bool = False
) -> ExampleBatch:
    """A batch on the model's device, shorter inputs filled up on one side (behind what must begin its row).

    With `even`, to a length that other batches have as well.
    """
    first = examples[0]
    sources = tuple(part.source for part in first.parts)
    fill = model.fill()

    def towards(source: Source) -> Literal["right", "left"]:
        return "right" if source.begins else side

    def row_of(name: str, values: Sequence[Tensor]) -> Tensor:
        source = model.goes_with(name, sources)
        along = values[0].dim() and values[0].shape[0] == first.inputs[source.name].shape[0]
        most = model.limit or 10**9
        longest = max(v.shape[0] for v in values) if along else 0
        length = min(even_length(longest), most) if even and along and longest <= most else None
        return _stacked(values, fill.get(name, 0), towards(source), length)

    stacked: dict[str, Tensor] = {}
    longest: dict[str, int] = {}
    for name in first.inputs:
        stacked[name] = row_of(name, [e.inputs[name] for e in examples])
        longest[name] = stacked[name].shape[1] if stacked[name].dim() > 1 else 0
    looked_up = {
        name: row_of(name, [e.looked_up.get(name, e.inputs[name]) for e in examples])
        for name in {n for e in examples for n in e.looked_up}
    }
    places = {}
    for k, source in enumerate(sources):
        held = [_places(e, k, longest[source.name], towards(source)) for e in examples]
        if any(p is not None for p in held):
            places[source.name] = [p if p is not None else range(longest[source.name]) for p in held]
    moved = {k: model.placed(k, v) for k, v in stacked.items()}
    return ExampleBatch(
        {**moved, **{k: v.to(model.device) if isinstance(v, Tensor) else v for k, v in first.shared.items()}},
        sources,
        places,
        {k: v.to(model.device) for k, v in looked_up.items()},
        tuple(examples),
    )


def _stacked(values: Sequence[Tensor], fill: int, side: str, length: int | None) -> Tensor:
    """Rows of the longest, or of a length that is given."""
    if len({v.shape for v in values}) == 1:
        made = torch.stack(list(values))
    else:
        made = pad_sequence(list(values), batch_first=True, padding_value=fill, padding_side=side)
    more = 0 if length is None else length - made.shape[1]
    if more == 0:
        return made
    ends = (0, more) if side == "right" else (more, 0)
    return torch.nn.functional.pad(made, (*(0, 0) * (made.dim() - 2), *ends), value=fill)


def _places(example: Example, part: int, longest: int, side: str) -> Places | None:
    """Where the features of an example stand in the padded row; None where they are all of it."""
    features = example.parts[part]
    value = example.inputs[features.source.name]
    length = value.shape[0] if value.dim() else 0
    if features.places is None and length == longest:
        return None
    if value.is_floating_point() and features.places is None:
        return None
    before = longest - length if side == "left" else 0
    if features.places is None:
        return range(before, before + length)
    return torch.tensor(features.places, dtype=torch.long) + before
