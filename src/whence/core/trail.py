"""Which token of the input an integer came from, however the model moved the ids about.

Models slice, shift, flatten, hash and concatenate token ids before they look them up. The ids carry a companion
tensor of the same shape that holds, for each element, its place in the input; every function that moves ids moves
the companion in the same way. So a decoder that shifts its input by one, or an encoder that hashes each id eight
times, still has its relevance booked at the right token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Trail", "begin", "follow", "trail_of"]


class Trail(NamedTuple):
    """Where the elements of a tensor of ids came from."""

    source: str
    places: Tensor
    """Of each element: its place in the source, flat; -1 for an id that the model put there itself."""
    whole: bool = True
    """Whether every element came from the source. Known without a look at the places, which may be on a GPU."""


# Functions that move elements without looking at them. Applied to the companions as well.
MOVES = frozenset(
    "getitem view reshape flatten squeeze unsqueeze expand expand_as repeat transpose permute movedim t roll "
    "flip narrow select split chunk unbind index_select gather take_along_dim repeat_interleave tile view_as "
    "reshape_as unflatten contiguous clone cat stack hstack vstack pad unfold masked_select take".split()
)
# Comparisons say something about the ids, but what they give is not an id (RoBERTa's positions come from one).
ENDS = frozenset(
    "eq ne lt le gt ge isin argmax cumsum sum any all bool equal argsort sort max min one_hot zeros_like "
    "ones_like full_like empty_like rand_like randint_like new_zeros new_ones new_full new_empty bitwise_and "
    "bitwise_or logical_and logical_or logical_not searchsorted bucketize nonzero".split()
)
# Functions that only ask their other argument for its shape or type.
LIKE = frozenset("expand_as view_as reshape_as type_as".split())


def begin(source: str, ids: Tensor) -> Tensor:
    """A copy of `ids` whose every element knows its place in the input named `source`."""
    ids = ids.clone()
    _mark(ids, Trail(source, torch.arange(ids.numel(), device=ids.device).view(ids.shape)))
    return ids


def trail_of(value: Any) -> Trail | None:
    return getattr(value, "_whence_from", None)


def _mark(ids: Any, trail: Trail) -> None:
    ids._whence_from = trail


def follow(func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    """Give `out` the trail that `func` gives it."""
    carriers = _flat(args[:1] if name in LIKE else args)
    found = next((p for p in map(trail_of, carriers) if p is not None), None)
    if found is None or name in ENDS:
        return
    if name in ("setitem", "copy", "fill", "masked_fill", "index_put", "scatter"):
        _written(func, name, args, kwargs, out, found.source)
    elif name in MOVES and any(trail_of(t) is not None for t in _flat(args[:1])):
        try:
            with torch._C.DisableTorchFunction():
                moved = _padded(*args, **kwargs) if name == "pad" else func(*(_companion(a) for a in args), **kwargs)
        except (RuntimeError, TypeError, IndexError, ValueError):
            return
        trails = [trail_of(t) for t in carriers if isinstance(t, Tensor) and not t.is_floating_point()]
        joined = name in ("cat", "stack", "hstack", "vstack")
        whole = name != "pad" and all(t.whole for t in trails if t is not None) and (not joined or None not in trails)
        pairs = zip(out, moved, strict=True) if isinstance(out, (tuple, list)) else [(out, moved)]
        for o, m in pairs:
            if isinstance(o, Tensor) and o.shape == m.shape:
                _mark(o, Trail(found.source, m, whole))
    elif isinstance(out, Tensor) and out.shape == found.places.shape and out.dtype != torch.bool:
        _mark(out, found)  # arithmetic: hash, cast, offset


def _written(
    func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, source: str
) -> None:
    target = out if isinstance(out, Tensor) else args[0]
    value = args[-1]
    held = trail_of(args[0])
    places = held.places.clone() if held else torch.full_like(args[0], -1, dtype=torch.long)
    if name in ("masked_fill", "fill"):
        pass  # a padding id takes the place of an ignored one: still the same token
    elif (written := trail_of(value)) is not None:
        try:
            with torch._C.DisableTorchFunction():
                func(places, *args[1:-1], written.places, **kwargs)
        except (RuntimeError, TypeError, IndexError, ValueError):
            return
    if target.shape == places.shape:
        _mark(target, Trail(source, places, whole=held is not None and held.whole))


def _padded(ids: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """The companion of padded ids: what was put beside them came from nowhere."""
    return torch.nn.functional.pad(_companion(ids), pad, mode, -1 if mode == "constant" else None)


def _companion(value: Any) -> Any:
    """What stands for `value` when the companions are moved."""
    if isinstance(value, Tensor):
        found = trail_of(value)
        return found.places if found else value
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        known = any(trail_of(v) is not None for v in value)
        return type(value)(
            (
                found.places
                if (found := trail_of(v))
                else torch.full_like(v, -1)
                if known and not v.is_floating_point()
                else v
            )
            for v in value
        )
    return value


def _flat(args: tuple[Any, ...]) -> list[Any]:
    return [item for a in args for item in (a if isinstance(a, (list, tuple)) else [a])]
