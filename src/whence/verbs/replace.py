"""`whence.replace`: what would the prediction be if some heads attended otherwise?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from whence.core.replacement import MapChange, observed, replaced
from whence.data.frames import column
from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.example import Example
from whence.models.loading import load
from whence.results.replaced import Replacement
from whence.stamp import versions

__all__ = ["Change", "change_of", "replace"]

Change = Literal["zero", "mean"] | np.ndarray | Tensor | Callable[[Tensor, Tensor], Tensor]
"""`zero`: the head gives nothing. `mean`: it looks at all that its mask allows alike. Or a map (query, key), of a layer
(head, query, key); or a function from the computed map and where the mask allows attention to a map."""


def replace(
    model: Any,
    inputs: Any,
    heads: Mapping[tuple[int, int], Change] | Sequence[tuple[int, int]] = (),
    *,
    layers: Mapping[int, Change] | Sequence[int] = (),
    target: Any = None,
    text: str | int | Sequence[str] | None = None,
    truncate: bool = False,
) -> Any:
    """Predict with the attention of some heads, or of whole layers, replaced: a `Replacement`, or a list for a list.

    >>> import whence
    >>> whence.replace("sentiment", "a gem", heads={(0, 3): "zero"}).before.label
    'positive'

    Arguments:
        heads: (layer, head) to "zero" (the head gives nothing), "mean" (it looks at all that it may alike), or a map of
            your own, (query, key). A list of heads is the same as "zero" for each.
        layers: the same for all heads of a layer. Layers are counted as in `whence.attention`.
        target: the score that is compared; by default that of the prediction before.
    """
    changes = {**_changes("layers", layers), **_changes("heads", heads)}
    if not changes:
        raise InputError("nothing is replaced: pass heads={(0, 3): 'zero'} or layers={2: 'mean'}")
    adapter = load(model)
    examples, single = adapter.encode(column(inputs, text), truncate=truncate)
    results = [_replaced(adapter, example, target, changes) for example in examples]
    return results[0] if single else results


def change_of(asked: Any) -> MapChange:
    """A word, an array, a tensor or a function as a change of a map."""
    if isinstance(asked, str):
        if asked not in WORDS:
            raise InputError(
                f"{asked!r} is no replacement of attention: pass {' or '.join(map(repr, WORDS))}, or a map"
            )
        return WORDS[asked]
    if isinstance(asked, np.ndarray | list):
        try:
            asked = torch.as_tensor(np.asarray(asked, dtype=np.float32))
        except (TypeError, ValueError):
            raise InputError(f"{asked!r:.80} is no map: pass an array of numbers, (query, key)") from None
    if isinstance(asked, Tensor):
        given = asked
        return lambda observed, allowed: given.to(observed)
    if callable(asked):
        made: MapChange = asked
        return made
    raise InputError(f"{asked!r:.80} is no replacement of attention: pass {' or '.join(map(repr, WORDS))}, or a map")


def _nothing(observed: Tensor, allowed: Tensor) -> Tensor:
    return torch.zeros_like(observed)


def _alike(observed: Tensor, allowed: Tensor) -> Tensor:
    return (allowed / allowed.sum(-1, keepdim=True).clamp(min=1)).to(observed)


WORDS: dict[str, MapChange] = {"zero": _nothing, "mean": _alike}


def _changes(name: str, asked: Any) -> dict[Any, Any]:
    """What was passed, by place."""
    if asked is None:
        return {}
    example = "heads=[(0, 3)] or heads={(0, 3): 'zero'}" if name == "heads" else "layers=[2] or layers={2: 'mean'}"
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        raise InputError(f"{name}={asked!r} is no list of {name}: pass {example}")
    if isinstance(asked, Mapping):
        held = dict(asked)
    else:
        held = {tuple(place) if isinstance(place, list) else place: "zero" for place in asked}
    for place in held:
        pair = isinstance(place, tuple) and len(place) == 2 and all(isinstance(n, int | np.integer) for n in place)
        if (name == "heads") != pair or (name == "layers" and not isinstance(place, int | np.integer)):
            wanted = "(layer, head), such as (0, 3)" if name == "heads" else "numbers, such as 2"
            raise InputError(f"{name} are {wanted}, not {place!r}: pass {example}")
    return held


def _replaced(adapter: AbstractAdapter, example: Example, choice: Any, changes: Mapping[Any, Any]) -> Replacement:
    example, target = adapter.aim(example, choice)
    batch = adapter.collate([example], [target])
    scores = TargetScores(adapter, batch, [target])
    with torch.no_grad():
        seen = observed(adapter.forward, batch)
        if seen.in_parts:
            raise InputError(
                f"{seen.in_parts} attentions of this model are over windows or chunks of its input: they can't be "
                "replaced, and the others have no number of their own"
            )
        outputs = seen.outputs
        before = float(scores(outputs)[0])
        with replaced(batch, {place: change_of(change) for place, change in changes.items()}) as inputs:
            other = adapter.forward(inputs)
        # The same outputs as before, whatever the model says now.
        terms = scores.terms
        after = float((adapter.sum_of_terms(other, batch, terms) if terms else scores(other))[0])
    (first,), (second,) = adapter.predictions(outputs, batch), adapter.predictions(other, batch)
    return Replacement(
        before=first,
        after=second,
        target=scores.names[0],
        score_before=before,
        score_after=after,
        replaced=tuple(_named(place, change) for place, change in changes.items()),
        text=example.text,
        stamp={**adapter.facts(), **versions()},
    )


def _named(place: Any, change: Any) -> str:
    where = f"layer {place[0]}, head {place[1]}" if isinstance(place, tuple) else f"layer {place}"
    return f"{where}: {change if isinstance(change, str) else 'a map'}"
