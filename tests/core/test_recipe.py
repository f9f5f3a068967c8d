"""Recipes: what is written in the table, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from tests.core.helpers import PRESETS
from tests.reference.detached import PRESETS as TABLE
from whence.core.recipe import Epsilon, Gamma, Plain, Recipe, ZPlus, recipes
from whence.errors import UnknownNameError


def test_all_presets_are_registered_with_their_source() -> None:
    assert set(PRESETS) <= set(recipes)
    assert all(recipes[name].source and recipes[name].name == name for name in PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_the_rows_of_the_published_table(name: str) -> None:
    recipe, row = recipes[name], TABLE[name]
    assert (recipe.softmax, recipe.values) == (row.softmax, row.value)
    assert (recipe.activation, recipe.product, recipe.norm) == (row.activation, row.gate, row.norm)
    if row.softmax != "detach":
        assert recipe.scores == row.query_key
    assert isinstance(recipe.linear, Plain)
    assert isinstance(recipe.conv, Plain)


def test_an_unknown_name_suggests_the_right_one() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'attn_lrp'\?") as raised:
        recipes["atn_lrp"]
    assert "exact" in str(raised.value)
    with pytest.raises(KeyError):
        recipes["nothing like it"]


def test_a_recipe_is_registered_once() -> None:
    with pytest.raises(ValueError, match="registered already"):
        recipes.add("exact", recipes["gi"])


@pytest.mark.parametrize(
    "choice",
    [
        {"activation": "relu"},
        {"product": "quarter"},
        {"norm": "none"},
        {"softmax": "temperature"},
        {"linear": "gamma"},
        {"conv": 0.25},
    ],
)
def test_choices_that_do_not_exist_are_refused_by_name(choice: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(choice))):
        Recipe("mine", **choice)  # type: ignore[arg-type]


def test_but_changes_a_copy() -> None:
    before = recipes["exact"]
    after = before.but(norm="identity", linear=Gamma(0.1))
    assert (before.norm, after.norm) == ("detach", "identity")
    assert after.name == "exact*"
    assert after.but(name="mine").name == "mine"
    assert after.linear == Gamma(0.1) != Gamma() != ZPlus() != Epsilon()
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.norm = "identity"  # type: ignore[misc]


def test_only_exact_conserves() -> None:
    assert [name for name in PRESETS if recipes[name].conserves] == ["exact"]
    assert not recipes["exact"].but(rules={"sin": lambda call: call.run()}).conserves
