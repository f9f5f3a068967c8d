"""Attention maps, as many layers as are small enough to send."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from whence import cancel
from whence.errors import WhenceError
from whence.models import AbstractAdapter
from whence.models.choosing import Chooser
from whence.models.embedders import embedder_of
from whence.results.maps import AttentionMaps
from whence.verbs.attention import attention
from whence.viz.verdicts import verdict
from whence.web.catalogue import Catalogue, sides_of
from whence.web.inputs import check_tokens, input_of
from whence.web.refusals import ApiError, of_library
from whence.web.requests import AttentionRequest
from whence.web.settings import Limits

__all__ = ["answered"]

log = logging.getLogger("whence.web")
LARGEST = 8_000_000
"""Weights in one answer, a byte each: further layers are asked for by themselves."""


def answered(request: AttentionRequest, catalogue: Catalogue, limits: Limits) -> dict[str, Any]:
    """The answer of /api/attention."""
    adapter = catalogue.model(request.model)
    if isinstance(adapter, Chooser) and not sides_of(adapter):
        message = f"This model reads {adapter.reads_apart}: there is no attention over all of it."
        raise ApiError(422, "wrong_input", message, "Ask /api/explain, by a method from /api/info.")
    item = input_of(adapter, request, limits, apart=True)
    if "image" in sides_of(adapter):
        item = {"text": item} if isinstance(item, str) else {"image": item}
        adapter = embedder_of(adapter).side_for(item)
    if request.text is not None:
        check_tokens(adapter, request.text, request.pair, limits.attention_tokens)
    try:
        maps = _read(adapter, item, request.ranks)
    except WhenceError as error:
        raise of_library(error) from None
    if request.layer >= len(maps):
        raise ApiError(
            422, "unknown_layer", f"There is no layer {request.layer}: the model has {len(maps)}.",
            f"Send a layer from 0 to {len(maps) - 1}.",
        )  # fmt: skip
    first, *others = _fitting(maps, request.layer, request.layers)
    answer = {"layers": len(maps), "streams": list(maps.streams), **first, "others": others}
    said = {"ranks": _ranks(maps), "verdict": verdict(maps)} if request.ranks else {"ranks": None, "verdict": None}
    return answer | said


def _read(adapter: AbstractAdapter, item: Any, ranks: bool) -> AttentionMaps:
    """The maps, with the relevance of their heads where that can be had."""
    if ranks:
        try:
            ranked: AttentionMaps = attention(adapter, item, relevance=True)
            return ranked
        except WhenceError as error:
            log.debug("no relevance of heads: %s", error)
    plain: AttentionMaps = attention(adapter, item)
    return plain


def _fitting(maps: AttentionMaps, start: int, count: int) -> list[dict[str, Any]]:
    """The layer that is asked for, and those after it that are wanted and fit into one answer."""
    made: list[dict[str, Any]] = []
    size = 0
    for number in range(start, min(start + count, len(maps))):
        cancel.check()
        size += maps[number].size
        if made and size > LARGEST:
            break
        made.append(_layer(maps, number))
    return made


def _layer(maps: AttentionMaps, number: int) -> dict[str, Any]:
    chosen = maps[number].astype(np.float64)
    query, key = maps.axes(number)
    maxima = chosen.max((1, 2))
    scaled = np.rint(chosen / np.where(maxima > 0, maxima, 1)[:, None, None] * 255).clip(0, 255).astype(np.uint8)
    return {
        "layer": number,
        "heads": chosen.shape[0],
        "query_tokens": _names(query, chosen.shape[1]),
        "key_tokens": _names(key, chosen.shape[2]),
        "maps": base64.b64encode(scaled.tobytes()).decode(),
        "maxima": [float(m) if np.isfinite(m) else None for m in maxima],
    }


def _ranks(maps: AttentionMaps) -> dict[str, list[list[float]]]:
    """What heads can be sorted by."""
    held = {**({"relevance": maps.relevance} if maps.relevance else {}), "entropy": maps.entropy}
    return {name: [[float(np.nan_to_num(v)) for v in row] for row in rows] for name, rows in held.items()}


def _names(tokens: Sequence[str], count: int) -> list[str]:
    """Names for the tokens of a map: those of the text, or the patches of an image, after tokens such as [CLS]."""
    if len(tokens) == count:
        return list(tokens)
    side = int(count**0.5)
    extra = count - side * side
    names = ["[CLS]"] if extra == 1 else [f"token {n}" for n in range(extra)]
    return names + [f"patch {n // side},{n % side}" for n in range(count - extra)]
