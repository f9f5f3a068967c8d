"""Options that are checked by their types: a misspelled word or a number out of range is an error, never a meaning.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True, kw_only=True)
... class Blur(Options):
...     kind: Literal["box", "gauss"] = "box"
...     width: Annotated[int, Least(1)] = 3
>>> Blur(kind="gaus")
Traceback (most recent call last):
whence.errors.OptionError: Blur: kind='gaus' is not 'box' or 'gauss'. Did you mean 'gauss'?
>>> Blur(width=0)
Traceback (most recent call last):
whence.errors.OptionError: Blur: width=0 is not a whole number of at least 1
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from whence.errors import OptionError, nearest

__all__ = ["Above", "Count", "Least", "Most", "Options", "Share", "build", "check", "whole_number"]


def whole_number(text: str) -> int | None:
    """The number that a text spells; None if it spells none, or one that no class, layer or token has.

    >>> [whole_number(text) for text in ("12", "-1", " 1", "--1", "²", "1.0")]
    [12, -1, None, None, None, None]
    """
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


class Least(NamedTuple):
    """At least `bound`."""

    bound: float

    def holds(self, value: float) -> bool:
        return value >= self.bound

    def __str__(self) -> str:
        return f"of at least {self.bound:g}"


class Above(NamedTuple):
    """More than `bound`."""

    bound: float

    def holds(self, value: float) -> bool:
        return value > self.bound

    def __str__(self) -> str:
        return f"above {self.bound:g}"


class Most(NamedTuple):
    """At most `bound`."""

    bound: float

    def holds(self, value: float) -> bool:
        return value <= self.bound

    def __str__(self) -> str:
        return f"up to {self.bound:g}"


Bound = Least | Above | Most
Count = Annotated[int, Least(1)]
"""How many of something: 1, 2, …"""
Share = Annotated[float, Least(0), Most(1)]
"""A part of a whole."""


@dataclass(frozen=True)
class Options:
    """Base of everything with options: recipes, methods, metrics, questions. Fields are checked as they are made.

    Lists become tuples where the type says so, whole numbers become floats; nothing else is changed.
    """

    def __post_init__(self) -> None:
        for name, kind in _kinds(type(self)).items():  # type: ignore[arg-type]
            object.__setattr__(self, name, check(name, getattr(self, name), kind, owner=type(self).__name__))


@cache
def _kinds(owner: type) -> dict[str, Any]:
    """Field to type, of a dataclass."""
    hints = get_type_hints(owner, include_extras=True)
    return {f.name: hints[f.name] for f in fields(owner)}


def build(kind: Callable[..., Any], what: str, options: Mapping[str, Any], known: Iterable[str]) -> Any:
    """`kind(**options)`, with an error in words for an option that it does not have."""
    known = sorted(known)
    wrong = next((name for name in options if name not in known), None)
    if wrong is not None:
        raise OptionError(f"{what} has no option {wrong!r}.{nearest(wrong, known)} Its options: {', '.join(known)}")
    return kind(**options)


def check(name: str, value: Any, kind: Any, owner: str = "") -> Any:
    """`value` if it is of type `kind`, in the form that the type says; an error that names what was expected if not.

    >>> check("limit", 5, Count | None)
    5
    """
    made = _read(value, kind)
    if made is not _WRONG:
        return made
    words = [w for w in _words(kind) if w.startswith("'")] if isinstance(value, str) else []
    hint = nearest(value, [w[1:-1] for w in words])
    where = f"{owner}: " if owner else ""
    raise OptionError(f"{where}{name}={_shown(value)} is not {_listed(_words(kind))}{'.' if hint else ''}{hint}")


_WRONG: Any = object()


def _read(value: Any, kind: Any) -> Any:
    """`value` as a `kind`, or `_WRONG`."""
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin is Annotated:
        inner, *notes = get_args(kind)
        made = _read(value, inner)
        fits = made is not _WRONG and all(note.holds(made) for note in notes if isinstance(note, Bound))
        return made if fits else _WRONG
    if origin in (Union, types.UnionType):
        return next((made for part in get_args(kind) if (made := _read(value, part)) is not _WRONG), _WRONG)
    if origin is Literal:
        return next((a for a in get_args(kind) if a == value and isinstance(value, type(a))), _WRONG)
    if origin is tuple:
        return _tuple(value, get_args(kind))
    if kind in (None, type(None)):
        return None if value is None else _WRONG
    if kind is bool:
        return value if isinstance(value, bool) else _WRONG
    if kind is int:
        return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else _WRONG
    if kind is float:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        return float(value) if is_number and math.isfinite(value) else _WRONG
    return value if isinstance(value, origin or kind) else _WRONG


def _tuple(value: Any, kinds: tuple[Any, ...]) -> Any:
    if not isinstance(value, (list, tuple)):
        return _WRONG
    each = [kinds[0]] * len(value) if kinds[1:] == (...,) else list(kinds)
    if len(each) != len(value):
        return _WRONG
    made = tuple(_read(v, k) for v, k in zip(value, each, strict=True))
    return _WRONG if any(m is _WRONG for m in made) else made


def _words(kind: Any) -> list[str]:
    """What a value of a type is called; several where it may be one of several things."""
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *notes = get_args(kind)
        bounds = " and ".join(str(n) for n in notes if isinstance(n, Bound))
        return [f"{word} {bounds}".rstrip() for word in _words(inner)]
    if origin in (Union, types.UnionType):
        return [word for part in get_args(kind) for word in _words(part)]
    if origin is Literal:
        return [repr(a) for a in get_args(kind)]
    if origin is tuple:
        return [f"a list, each {_listed(_words(get_args(kind)[0]))}"]
    if kind in (None, type(None)):
        return ["None"]
    plain = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    return [plain.get(kind) or f"a {getattr(origin or kind, '__name__', str(kind))}"]


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
