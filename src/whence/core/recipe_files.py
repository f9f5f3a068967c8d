"""Recipes as JSON files: a few lines that people can read and change."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whence.core.recipe import Epsilon, Gamma, LinearRule, Plain, Recipe, ZPlus
from whence.errors import InputError

__all__ = ["from_dict", "load", "save", "to_dict"]

FORMAT = 1
LINEAR: dict[str, type] = {"plain": Plain, "epsilon": Epsilon, "gamma": Gamma, "zplus": ZPlus}
PLAIN_FIELDS = ("name", "softmax", "scores", "values", "activation", "product", "norm", "source")


def to_dict(recipe: Recipe) -> dict[str, Any]:
    """The table of choices. Rules of the user's own are code, which a file does not hold."""
    if recipe.rules:
        raise InputError(
            f"recipe {recipe.name!r} has rules of its own ({len(recipe.rules)}): functions can't be saved. "
            "Save recipe.but(rules={}) and add the rules again after loading"
        )
    choices = {name: getattr(recipe, name) for name in PLAIN_FIELDS}
    return {"format": FORMAT, **choices, "linear": _spelled(recipe.linear), "conv": _spelled(recipe.conv)}


def from_dict(data: dict[str, Any]) -> Recipe:
    if not isinstance(data, dict) or data.get("format") != FORMAT or "name" not in data:
        raise InputError(f"this is no recipe of format {FORMAT}; write one with recipe.save('mine.json')")
    unknown = sorted(set(data) - {*PLAIN_FIELDS, "format", "linear", "conv"})
    if unknown:
        raise InputError(f"a recipe has no {', '.join(map(repr, unknown))}; its choices: {', '.join(PLAIN_FIELDS[1:])}")
    chosen: dict[str, Any] = {name: data[name] for name in PLAIN_FIELDS if name in data}
    linear: dict[str, Any] = {name: _read(data[name]) for name in ("linear", "conv") if name in data}
    try:
        return Recipe(**chosen, **linear)
    except ValueError as error:
        raise InputError(str(error)) from None


def save(recipe: Recipe, path: str | Path) -> Path:
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise InputError(f"recipes are saved as .json, not {path.name!r}")
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(to_dict(recipe), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
    return path


def load(path: str | Path) -> Recipe:
    try:
        return from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise InputError(f"no such recipe: {str(path)!r}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{str(path)!r} is not JSON: {error}") from None


def _spelled(rule: LinearRule) -> dict[str, Any]:
    return {"rule": next(name for name, kind in LINEAR.items() if isinstance(rule, kind)), **asdict(rule)}


def _read(data: Any) -> LinearRule:
    options = dict(data) if isinstance(data, dict) else {}
    kind = LINEAR.get(options.pop("rule", ""))
    if kind is None:
        raise InputError(f"a linear rule is {{'rule': NAME}}, NAME one of {', '.join(LINEAR)}; got {data!r}")
    try:
        return kind(**options)
    except TypeError as error:
        raise InputError(f"linear rule {data!r}: {error}") from None
