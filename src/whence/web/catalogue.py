"""The models and methods of a server: those given at start, by name, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whence.errors import InputError, UnknownNameError
from whence.methods import methods as registered
from whence.methods.listing import lines
from whence.methods.method import class_of
from whence.models import AbstractAdapter, load
from whence.web.refusals import ApiError
from whence.web.settings import Settings

__all__ = ["Catalogue", "kind_of"]

DEFAULT_METHODS = ("lrp", "gi", "gae", "rollout")
KINDS = ("text", "image", "generation")
SENTENCES = (
    "a gorgeous, witty, seductive movie",
    "It is not a good film: the plot is dull and the jokes are worse.",
    "I expected to hate it, but the cast won me over.",
)
PROMPTS = ("The capital of France is", "Once upon a time there was a")
DIGITS = tuple(f"/examples/digit-{n}.png" for n in (3, 7, 8))


class Catalogue:
    """Models by the name that requests use, loaded once."""

    def __init__(self, settings: Settings) -> None:
        self._given = _named(settings.models)
        self._loading, self._locks = dict(settings.loading), {name: threading.Lock() for name in self._given}
        self._loaded: dict[str, AbstractAdapter] = {}
        self.methods = tuple(settings.methods or registered)
        for name in self.methods:
            registered[name]

    def __iter__(self) -> Any:
        return iter(self._given)

    def load_all(self) -> None:
        """Load every model now, so that what can't be loaded is known before the first request."""
        for name in self._given:
            self.model(name)

    def model(self, name: str) -> AbstractAdapter:
        """The model of that name; only those given at start have one."""
        if name not in self._given:
            raise _unknown(404, UnknownNameError("model", name, self._given))
        with self._locks[name]:
            if name not in self._loaded:
                given = self._given[name]
                adapter = load(given, **({} if not isinstance(given, str) else self._loading))
                if isinstance(given, str):
                    adapter.name = name  # a folder's path is nobody's business
                self._loaded[name] = adapter
            return self._loaded[name]

    def check_method(self, name: str) -> None:
        """Only registered names: elsewhere in the library a method may also be a file."""
        if name not in self.methods:
            raise _unknown(422, UnknownNameError("method", name, self.methods))

    def describe(self, name: str, most_tokens: int) -> dict[str, Any]:
        adapter = self.model(name)
        kind = kind_of(adapter)
        limit = adapter.limit
        return {
            "name": name,
            "task": adapter.task,
            "kind": kind,
            "labels": list(adapter.labels) if kind != "generation" else [],
            "max_tokens": None if kind == "image" else min(limit or most_tokens, most_tokens),
            "examples": list(_examples(adapter, kind)),
        }

    def describe_methods(self) -> list[dict[str, Any]]:
        summaries = dict(lines())
        return [
            {"name": n, "summary": summaries[n], "kinds": list(KINDS), "slow": _is_slow(n), "class_specific": _made(n)}
            for n in self.methods
        ]

    def default_methods(self) -> list[str]:
        return [n for n in DEFAULT_METHODS if n in self.methods] or list(self.methods[:1])


def _unknown(status: int, error: UnknownNameError) -> ApiError:
    message, _, known = str(error).partition(" Known: ")
    return ApiError(status, f"unknown_{error.kind}", message[:300], f"Known: {known[:600]}")


def _named(models: tuple[str, ...] | Mapping[str, Any]) -> dict[str, Any]:
    """What was given at start by the name it is asked for by: a folder goes by its own name, without its path."""
    if isinstance(models, Mapping):
        return dict(models)
    named: dict[str, Any] = {}
    for model in models:
        name = Path(model).expanduser().resolve().name if Path(model).expanduser().is_dir() else model
        if name in named:
            raise InputError(f"two models are named {name!r}: rename a folder")
        named[name] = model
    if not named:
        raise InputError("no model to serve: type  whence serve sentiment")
    return named


def kind_of(adapter: AbstractAdapter) -> str:
    """How the page treats a model: by text, by image, or as one that writes on."""
    return "image" if adapter.kind == "image" else "generation" if adapter.speaks else "text"


def _examples(adapter: AbstractAdapter, kind: str) -> tuple[str, ...]:
    if kind == "image":
        return DIGITS if adapter.labels == tuple("0123456789") else ()
    if adapter.speaks and not adapter.writes:
        return (f"The capital of France is {adapter.blank or '[MASK]'}.",)
    return PROMPTS if kind == "generation" else SENTENCES


def _made(name: str) -> bool:
    return class_of(name).class_specific


def _is_slow(name: str) -> bool:
    """Whether the cost grows with the input or a number of samples, rather than one or two passes."""
    return any(word in class_of(name).cost for word in (" per ", "steps", "samples"))
