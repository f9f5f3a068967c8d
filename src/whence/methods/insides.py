"""The inside of a prediction: what a backward pass under a recipe says of the places that it goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from whence.core.crossing import Crossing, inside
from whence.core.numerics import wide_of
from whence.core.places import KINDS, Place
from whence.core.propagation import At, Propagation
from whence.errors import InputError, OptionError, nearest
from whence.methods.method import AbstractMethod
from whence.methods.propagate import NOTICED, Propagate, receipts_of, unit_of
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import Example, ExampleBatch
from whence.models.targets import AbstractTarget
from whence.results import Conservation
from whence.results.inside import Inside, Scores

__all__ = ["inside_of", "places_in"]

NAMES = {"inputs": "later inputs"}
"""What kinds of the core are called on a receipt of a layer."""


def places_in(model: AbstractAdapter, method: AbstractMethod, at: str | Sequence[str]) -> tuple[str, ...]:
    """The places that were asked for, or an error that says what there is."""
    asked = (at,) if isinstance(at, str) or not isinstance(at, Sequence) else tuple(at)
    if not isinstance(method, Propagate):
        raise InputError(
            f"at={at!r} reads a backward pass under a recipe, and {method.name!r} has none: use method='lrp', or "
            "another of the recipes that 'whence methods' lists"
        )
    if method.at != "word":
        raise OptionError(f"at={at!r} goes with the method's own at='word', not with {method.at!r}")
    of_input = [place for place in asked if place in get_args(At)]
    if of_input:
        raise OptionError(
            f"at={at!r}: {of_input[0]!r} is a place of the input, and can't stand in a list with places inside. Ask "
            f"for it alone, at={of_input[0]!r}"
        )
    known = [name for name, _ in model.module.named_modules() if name]
    for place in asked:
        if place not in KINDS and place not in known:
            raise OptionError(
                f"at={place!r} is no place.{nearest(place, [*KINDS, *get_args(At), *known])} Of the input: "
                f"{', '.join(get_args(At))}. Inside: {', '.join(KINDS)}, or the name of a module"
            )
    if not asked:
        raise InputError(f"at=[] names no place: pass some of {', '.join(KINDS)}, or names of modules")
    return tuple(dict.fromkeys(asked))


def inside_of(
    model: AbstractAdapter, method: Propagate, example: Example, target: AbstractTarget, places: Sequence[str]
) -> Inside:
    """One pass there and back over one example, with a look at its places."""
    batch = model.collate([example], [target])
    scores = TargetScores(model, batch, [target])
    kinds, modules = [p for p in places if p in KINDS], [p for p in places if p not in KINDS]
    seen = inside(
        model.forward, batch, module=model.module, target=scores, recipe=method.resolved(),
        kinds=["layers", *kinds], modules=modules,
    )  # fmt: skip
    made, rows = {}, {}
    for place in places:
        found = seen.of(place) if place in KINDS else seen.of("module", place)
        if not found:
            raise InputError(_missing(place, seen))
        if place == "experts":
            found, made[place] = _experts(found)
        else:
            made[place] = _even([_scores(place, one) for one in found])
        rows[place] = tuple(-1 if one.layer is None else one.layer for one in found)
        if place not in KINDS and len(found) == 1:
            made[place] = np.asarray(made[place][0])
    columns = tuple(_columns(model, example, seen, one) for one in seen.of("layers"))
    return Inside(
        inputs=_inputs(model, method, batch, seen, scores.names[0]),
        scores=made,
        layers=seen.layers,
        receipts=tuple(_receipt(model, seen, one) for one in seen.of("layers")),
        rows=rows,
        columns=columns,
        by_token=_by_token(seen, columns) if "heads" in places else {},
    )


# -- scores ------------------------------------------------------------------------------------------------------------


def _numbers(x: Tensor) -> np.ndarray:
    return np.asarray(x.detach().float().cpu().numpy())


def _scores(place: str, one: Place) -> np.ndarray:
    """The relevance of one place: of its heads, of its neurons, or of its tokens."""
    relevance = one.relevance
    wide = wide_of(relevance.device)
    if place == "heads":
        return _numbers(relevance.movedim(one.axis, 0).flatten(1).sum(1, dtype=wide))
    if place == "neurons":
        return _numbers(relevance.flatten(0, -2).sum(0, dtype=wide))
    return _numbers(_by_place(relevance, wide))


def _by_place(relevance: Tensor, wide: torch.dtype) -> Tensor:
    """Summed over channels: the last axis, or the second of pictures (example, channel, height, width)."""
    shape = relevance.shape
    channels = 1 if len(shape) == 4 and shape[2] == shape[3] != shape[1] else -1
    summed = relevance.sum(channels, dtype=wide) if relevance.dim() > 1 else relevance
    return summed.reshape([size for size in summed.shape if size > 1] or [1])


def _experts(found: Sequence[Place]) -> tuple[list[Place], Scores]:
    """Of every layer, the relevance of what each expert gave."""
    sums: dict[int | None, Tensor] = {}
    firsts: dict[int | None, Place] = {}
    for one in found:
        assert one.owners is not None
        relevance = one.relevance
        rows = relevance.sum(-1, dtype=wide_of(relevance.device)).flatten()
        kept = one.owners < one.experts  # rows behind the last expert's belong to nobody
        total = sums.setdefault(one.layer, rows.new_zeros(one.experts))
        total.index_add_(0, one.owners[kept], rows[kept])
        firsts.setdefault(one.layer, one)
    return list(firsts.values()), _even([_numbers(total) for total in sums.values()])


def _even(rows: list[np.ndarray]) -> Scores:
    return np.stack(rows) if len({row.shape for row in rows}) == 1 else tuple(rows)


def _by_token(seen: Crossing, columns: Sequence[tuple[str, ...]]) -> dict[str, Scores]:
    """(layer, head, token), unless attention is over windows of them."""
    made = []
    for one in seen.of("heads"):
        relevance, names = one.relevance, columns[one.layer] if one.layer is not None else ()
        apart = relevance.movedim(one.axis, 0).sum(-1).flatten(1)
        if apart.shape[1] != len(names) or len(names) not in relevance.shape:
            return {}
        made.append(_numbers(apart))
    return {"heads": _even(made)}


def _missing(place: str, seen: Crossing) -> str:
    if place not in KINDS:
        return f"nothing of the input was seen in what module {place!r} gives: it did not run, or gives no such tensor"
    if not seen.layers:
        return f"no layers were seen in this model, so there are no {place}: name modules, at='…'"
    mixed = seen.of("experts") if place in ("mlps", "neurons") else []
    hint = "its MLPs are experts, so use at='experts'" if mixed else "name a module, at='…'"
    what = {
        "experts": "groups of rows, slices of one weight, or a list of modules",
        "heads": "probabilities that multiply values",
        "attentions": "a linear layer that reads heads",
        "mlps": "a linear layer that reads an activation",
        "neurons": "a linear layer that reads an activation",
    }
    return f"no {place} were seen in this model (they are found by {what.get(place, 'its blocks')}): {hint}"


# -- names and receipts ------------------------------------------------------------------------------------------------


def _columns(model: AbstractAdapter, example: Example, seen: Crossing, layer: Place) -> tuple[str, ...]:
    """What the tokens of a layer are: features, and what the model adds of its own (a class token)."""
    width = _by_place(torch.zeros(layer.value.shape), torch.float32).numel()
    names = [_names(model, example, n) for n in range(len(example.parts))]
    whole = [name for own in names for name in own]
    fitting = [own for own in names if len(own) == width]
    if len(whole) == width or not fitting:
        own = model.features_among(example, width)
        if len(whole) == width or own is None:
            return tuple(whole) if len(whole) == width else tuple(map(str, range(width)))
        spread = [f"({n})" for n in range(width)]
        spread[own] = whole
        return tuple(spread) if len(spread) == width else tuple(map(str, range(width)))
    stacks = list(dict.fromkeys(name.rpartition(".")[0] for name in seen.layers))
    return tuple(fitting[min(stacks.index(layer.name.rpartition(".")[0]), len(fitting) - 1)])


def _names(model: AbstractAdapter, example: Example, n: int) -> list[str]:
    part = example.parts[n]
    if part.names:
        return list(part.names)
    if len(part.shape) == 1:
        return [str(place + 1) for place in range(part.count)]
    return [str([place + 1 for place in at]) for at in np.ndindex(part.shape)]


def _inputs(model: AbstractAdapter, method: Propagate, batch: ExampleBatch, seen: Crossing, name: str) -> Any:
    """The explanation of the inputs, as without places."""
    scores = model.scores_of(seen.relevance, batch, 0)
    totals: dict[str, float] = {}
    for amounts in seen.sinks.values():
        for kind, amount in amounts.items():
            totals[kind] = totals.get(kind, 0.0) + amount

    def number(value: float) -> Tensor:
        return torch.tensor([value], dtype=torch.float64)

    done = Propagation(
        relevance=seen.relevance, target=number(seen.target), inputs=number(seen.inputs), outputs=seen.outputs,
        sinks={kind: number(amount) for kind, amount in totals.items()},
        unruled=dict.fromkeys(seen.unruled, 1),
    )  # fmt: skip
    (receipt,) = receipts_of(done, [scores], unit_of(model), complete=True)
    (prediction,) = model.predictions(seen.outputs, batch)
    return method.build(
        model, batch.rows[0], scores=scores, target=name, target_score=seen.target, prediction=prediction,
        conservation=receipt,
    )  # fmt: skip


def _receipt(model: AbstractAdapter, seen: Crossing, layer: Place) -> Conservation:
    """A layer + what is absorbed behind it + what comes in behind it or passes it by = target."""
    assert layer.layer is not None
    relevance = layer.relevance
    wide = wide_of(relevance.device)
    sinks = {NAMES.get(kind, kind): amount for kind, amount in seen.above(layer.layer).items()}
    sizes = float(relevance.sum(-1).abs().sum(dtype=wide)) + abs(seen.target) + sum(map(abs, sinks.values()))
    tolerance = unit_of(model) * sizes
    made = Conservation(float(relevance.sum(dtype=wide)), seen.target, sinks, seen.unruled, True, tolerance)
    # What passes by without a block being handed it (features of several layers that a head reads) was not seen.
    closes = abs(made.error) <= max(tolerance, NOTICED * made.scale) or bool(seen.unruled)
    return made if closes else replace(made, complete=False)
