"""One contract for every option of every method, metric, question, recipe and linear rule: nonsense is refused."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest

import whence
import whence.verbs.diagnose  # registers the questions
from whence.diagnostics.question import questions
from whence.errors import OptionError
from whence.evaluation.metric import metrics
from whence.methods.method import class_of
from whence.options import Above, Least, Most, Options

OWNERS: dict[str, type[Options]] = {
    **{f"method {name}": class_of(name) for name in whence.methods if name not in whence.recipes},
    **{f"metric {name}": metrics[name] for name in metrics},
    **{f"question {name}": questions[name] for name in questions},
    **{kind.__name__: kind for kind in (whence.Recipe, whence.Plain, whence.Epsilon, whence.Gamma, whence.ZPlus)},
}
ANY_NUMBER = {"seed", "layer", "start_layer"}
"""Any seed will do; layers count from the end where they are negative, and only the model knows how many there are."""


class Option(NamedTuple):
    owner: str
    name: str
    kinds: tuple[Any, ...]
    """What it may be: the members of a union, without their annotations."""
    bounds: tuple[Any, ...]


def options() -> list[Option]:
    found = []
    for owner, kind in OWNERS.items():
        hints = get_type_hints(kind, include_extras=True)
        found += [Option(owner, f.name, *_members(hints[f.name])) for f in fields(kind)]
    return found


def _members(kind: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        kinds, bounds = _members(inner)
        return kinds, (*bounds, *notes)
    if get_origin(kind) in (Union, types.UnionType):
        each = [_members(part) for part in get_args(kind)]
        return tuple(k for kinds, _ in each for k in kinds), tuple(b for _, bounds in each for b in bounds)
    return (kind,), ()


def refused(option: Option, value: Any) -> str:
    kind = OWNERS[option.owner]
    needed = {f.name: "x" for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    with pytest.raises(OptionError) as error:
        kind(**{**needed, option.name: value})
    assert option.name in str(error.value)
    return str(error.value)


EVERY = [pytest.param(option, id=f"{option.owner}: {option.name}") for option in options()]
CHOICES = [p for p in EVERY if any(get_origin(k) is Literal for k in p.values[0].kinds)]
NUMBERS = [p for p in EVERY if {int, float} & set(p.values[0].kinds)]


def test_there_is_something_to_check():
    assert len(OWNERS) > 30
    assert CHOICES
    assert NUMBERS


@pytest.mark.parametrize("owner", OWNERS)
def test_everything_with_options_checks_them(owner):
    assert issubclass(OWNERS[owner], Options)


@pytest.mark.parametrize("option", EVERY)
def test_a_thing_of_no_type_is_refused(option):
    if Any in option.kinds:
        pytest.skip("anything may stand here")
    refused(option, object())


@pytest.mark.parametrize("option", CHOICES)
def test_a_misspelled_word_is_refused_and_the_right_one_named(option):
    words = [w for k in option.kinds if get_origin(k) is Literal for w in get_args(k) if isinstance(w, str)]
    for word in words:  # (numbers among them are checked as numbers)
        assert repr(word) in refused(option, word[:-1] + "qq" if len(word) > 3 else word + "q")
    refused(option, "q")


@pytest.mark.parametrize("option", NUMBERS)
def test_what_is_no_number_is_refused(option):
    if str not in option.kinds:
        refused(option, "three")
    for value in (float("nan"), float("inf"), True):
        if not (value is True and bool in option.kinds):
            refused(option, value)
    if float not in option.kinds:
        refused(option, 1.5)


@pytest.mark.parametrize("option", NUMBERS)
def test_a_number_out_of_range_is_refused(option):
    bounds = [b for b in option.bounds if isinstance(b, (Least, Above, Most))]
    assert bounds or option.name in ANY_NUMBER, f"{option.owner}: any number would do as {option.name}"
    for bound in bounds:
        refused(option, bound.bound + 1 if isinstance(bound, Most) else bound.bound - 1)
