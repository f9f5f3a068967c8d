"""From whatever a user passes as a model to one that gives embeddings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import nn

from whence.errors import InputError, ModelError, ModelNotFoundError
from whence.models import doors
from whence.models.adapter import AbstractAdapter
from whence.models.choosing import ImageMatcher
from whence.models.embedding import TASK, Embeds, TextSide
from whence.models.from_files import BUNDLED
from whence.models.loading import load
from whence.models.tasks import kind_of

__all__ = ["embedder_of"]


def embedder_of(model: Any, **options: Any) -> Embeds:
    """A model of sentence-transformers, an encoder without a head, or one that matches pictures with texts (CLIP).

    `options` are those of `load` that say how files are read.
    """
    if isinstance(model, (str, Path)):
        found = _named(str(model), options)
    elif isinstance(model, tuple) and len(model) == 2 and isinstance(model[0], nn.Module) and _has_no_head(model[0]):
        found = load(model, task=TASK, **options)
    else:
        found = load(model, **options)
    if isinstance(found, ImageMatcher):
        return TextSide(found)
    if isinstance(found, Embeds):
        return found
    raise InputError(
        f"this is {found.called}, which gives no embedding to compare. Pass a model of sentence-transformers, an "
        "encoder without a head, a folder or (encoder, tokenizer), or a CLIP. "
        + _how_anyway(model, found)
        + " A model that reads both texts at once is explained by whence.explain(model, (a, b))."
    )


def _how_anyway(model: Any, found: AbstractAdapter) -> str:
    """What to type for the encoder within a model that has a head."""
    if isinstance(model, (str, Path)):
        return f"To compare what its encoder makes of texts: whence.load({str(model)!r}, task={TASK!r})."
    inner = "get_encoder()" if getattr(found.config, "is_encoder_decoder", False) else "base_model"
    return f"To compare what its encoder makes of texts: (model.{inner}, tokenizer)."


def _named(name: str, options: dict[str, Any]) -> AbstractAdapter:
    if name not in BUNDLED and doors.has_sentence_modules(name):
        return load(name, task=None if find_spec("sentence_transformers") else TASK, **options)
    try:
        return load(name, **options)
    except ModelNotFoundError:
        raise
    except ModelError:  # it does not say what it predicts: an encoder predicts nothing
        return load(name, task=TASK, **options)


def _has_no_head(module: nn.Module) -> bool:
    config = getattr(module, "config", None)
    return hasattr(config, "hidden_size") and kind_of(type(module).__name__, config, None) is None
