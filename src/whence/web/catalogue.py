"""The models and methods of a server: those given at start, by name, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whence.errors import InputError, UnknownNameError
from whence.methods import methods as registered
from whence.methods.attention.attention_method import AbstractAttentionMethod
from whence.methods.listing import lines
from whence.methods.method import class_of
from whence.methods.plainly import plain
from whence.methods.propagate import Propagate
from whence.models import BUNDLED, AbstractAdapter, load
from whence.models.choosing import Chooser, ImageMatcher
from whence.models.embedding import Embeds
from whence.models.together import ImageTextLM
from whence.web.refusals import ApiError
from whence.web.settings import Settings

__all__ = ["CHOICES", "READS", "Catalogue", "chosen_for", "is_slow", "kind_of", "sides_of"]

DEFAULT_METHODS = ("lrp", "gi", "gae", "rollout")
READS = {
    "text": ("text",),
    "generation": ("text",),
    "image": ("image",),
    "sound": ("sound",),
    "image_text": ("image", "text"),
    "pair": ("text",),
}
"""Kinds of model, and what a request gives them; a side of a pair may be an image, where `sides_of` says so."""
SENTENCES = (
    "a gorgeous, witty, seductive movie",
    "It is not a good film: the plot is dull and the jokes are worse.",
    "I expected to hate it, but the cast won me over.",
)
PROMPTS = ("The capital of France is", "Once upon a time there was a")
QUESTIONS = ("What is the capital of France?", "Name three things that bees need.")
PAIRS = (
    ("A cat sleeps on the sofa.", "The kitten is napping on the couch."),
    ("How do bees sleep?", "Honey bees rest at night, hanging upside down from the comb."),
)
MATCHES = (
    {"image": "/examples/shapes-2.png", "pair": "a purple triangle"},
    {"image": "/examples/digit-3.png", "pair": "the number three"},
    {"image": "/examples/digit-3.png", "pair_image": "/examples/digit-8.png"},
)
CHOICES: dict[str, tuple[dict[str, Any], ...]] = {
    "zero-shot-classification": (
        {"text": "The flight was late, and nobody told us why.", "labels": ["travel", "cooking", "sport"]},
        {"text": "The oven is broken again.", "labels": ["kitchen", "garden", "office"]},
    ),
    "multiple-choice": (
        {"text": "What can fly?", "labels": ["a stone", "a bird", "a chair"]},
        {"text": "She put the kettle on, for she wanted", "labels": ["a cup of tea", "to swim", "a new roof"]},
    ),
    "zero-shot-image-classification": (
        {"image": "/examples/shapes-2.png", "labels": ["a purple triangle", "a green circle", "a black square"]},
        {"image": "/examples/digit-3.png", "labels": ["the number three", "the number eight", "a letter"]},
    ),
    "zero-shot-audio-classification": (
        {"sound": "/examples/rising.wav", "labels": ["a rising tone", "a falling tone", "a barking dog", "rain"]},
        {"sound": "/examples/trill.wav", "labels": ["a bird", "an engine", "rain"]},
    ),
}
"""By task, for models that choose among texts."""
DIGITS = tuple("0123456789")
CALLS = ("rising", "falling", "trill", "double")
SCENES = (
    ("/examples/shapes-1.png", "which shape is the one in black"),
    ("/examples/shapes-2.png", "which shape is the one in purple"),
    ("/examples/shapes-2.png", "which side is the one in purple"),
    ("/examples/shapes-3.png", "which side is the one in yellow"),
)


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

    def load(self) -> None:
        """Load the models now, so that what can't be loaded is known before the first request.

        Bundled ones can be, as they are: all but the first wait until they are asked for.
        """
        as_they_are = self._loading.get("task") is None
        for n, (name, given) in enumerate(self._given.items()):
            if n == 0 or not (as_they_are and isinstance(given, str) and given in BUNDLED):
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
            "writes": adapter.writes and kind == "generation",
            "chats": adapter.chats and kind == "generation",
            "labels": list(adapter.labels) if kind != "generation" else [],
            "sides": list(sides_of(adapter)),
            "measures": list(_measures(adapter)),
            "chooses": self._choosing(adapter),
            "max_tokens": min(limit or most_tokens, most_tokens) if "text" in READS[kind] else None,
            "methods": [n for n in self.methods if _can(n, adapter)],
            "examples": _examples(adapter, kind),
        }

    def _choosing(self, adapter: AbstractAdapter) -> dict[str, Any] | None:
        """How a model is asked to choose; a CLIP can be asked for a similarity as well."""
        if not isinstance(adapter, Chooser):
            return None
        return {
            "kind": chosen_for(adapter),
            "texts": adapter.texts,
            "methods": [n for n in self.methods if not issubclass(class_of(n), AbstractAttentionMethod)],
            "examples": list(CHOICES.get(adapter.task, ())),
        }

    def describe_methods(self) -> list[dict[str, Any]]:
        summaries = dict(lines())
        return [
            {
                "name": n,
                **plain(n)._asdict(),
                "summary": summaries[n],
                "cost": class_of(n).cost,
                "slow": is_slow(n),
                "class_specific": class_of(n).class_specific,
            }
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
    """How the page treats a model: by what it reads, or as one that writes on."""
    if isinstance(adapter, ImageTextLM):
        return "image_text"
    if sides_of(adapter):
        return "pair"
    if isinstance(adapter, Chooser):
        return chosen_for(adapter)
    if adapter.kind in ("image", "sound"):
        return adapter.kind
    return "generation" if adapter.speaks else "text"


def chosen_for(adapter: Chooser) -> str:
    """What a model chooses a text for: a text, an image or a sound."""
    other = adapter.other if isinstance(adapter, ImageMatcher) else "text"
    return {"audio": "sound"}.get(other, other)


def sides_of(adapter: AbstractAdapter) -> tuple[str, ...]:
    """What either side of a pair may be for a model that embeds: texts, with images where it matches the two (CLIP);
    nothing for any other model."""
    if isinstance(adapter, ImageMatcher) and adapter.other == "image" and hasattr(adapter.module, "get_text_features"):
        return ("text", "image")
    return ("text",) if isinstance(adapter, Embeds) else ()


def _measures(adapter: AbstractAdapter) -> tuple[str, ...]:
    """How two embeddings of a model can be compared, its own measure first."""
    sides = sides_of(adapter)
    if not sides:
        return ()
    able = ("cosine", "dot") if "image" in sides else ("cosine", "dot", "maxsim")  # one embedding for all of a picture
    own = adapter.measure if isinstance(adapter, Embeds) else "cosine"
    return tuple(sorted(able, key=lambda name: name != own))


def _examples(adapter: AbstractAdapter, kind: str) -> list[dict[str, Any]]:
    """Inputs to begin with, as requests name them; of bundled models, those that they were made for."""
    if isinstance(adapter, Chooser) and kind != "pair":
        return list(CHOICES.get(adapter.task, ()))
    if kind == "image":
        return [{"image": f"/examples/digit-{n}.png"} for n in (3, 7, 8)] if adapter.labels == DIGITS else []
    if kind == "sound":
        return [{"sound": f"/examples/{call}.wav"} for call in CALLS] if adapter.labels == CALLS else []
    if kind == "image_text":
        return [{"image": image, "text": text} for image, text in SCENES]
    if kind == "pair":
        captions = [{"text": text, "pair": pair} for text, pair in PAIRS]
        return [*MATCHES, captions[0]] if "image" in sides_of(adapter) else captions
    if adapter.speaks and not adapter.writes:
        return [{"text": f"The capital of France is {adapter.blank or '[MASK]'}."}]
    prompts = (QUESTIONS[0], *PROMPTS, QUESTIONS[1]) if adapter.chats else PROMPTS
    return [{"text": text} for text in (prompts if kind == "generation" else SENTENCES)]


def _can(name: str, adapter: AbstractAdapter) -> bool:
    """Whether a method can explain what the page asks of a model; some need attention that is over all of it."""
    if sides_of(adapter):
        return issubclass(class_of(name), Propagate)
    apart = adapter.reads_apart or (isinstance(adapter, ImageTextLM) and adapter.sees_apart)
    return not (apart and issubclass(class_of(name), AbstractAttentionMethod))


def is_slow(name: str) -> bool:
    """Whether the cost grows with the input or a number of samples, rather than one or two passes."""
    return any(word in class_of(name).cost for word in (" per ", "steps", "samples"))
