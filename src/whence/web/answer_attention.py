"""One layer's attention maps, small enough to send."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.errors import WhenceError
from whence.verbs.attention import attention
from whence.web.catalogue import Catalogue
from whence.web.inputs import check_tokens, input_of
from whence.web.refusals import ApiError, of_library
from whence.web.requests import AttentionRequest
from whence.web.settings import Limits

__all__ = ["answered"]


def answered(request: AttentionRequest, catalogue: Catalogue, limits: Limits) -> dict[str, Any]:
    """The answer of /api/attention."""
    adapter = catalogue.model(request.model)
    item = input_of(adapter, request, limits)
    if request.text is not None:
        check_tokens(adapter, request.text, request.pair, limits.attention_tokens)
    try:
        maps = attention(adapter, item)
    except WhenceError as error:
        raise of_library(error) from None
    if request.layer >= len(maps):
        raise ApiError(
            422, "unknown_layer", f"There is no layer {request.layer}: the model has {len(maps)}.",
            f"Send a layer from 0 to {len(maps) - 1}.",
        )  # fmt: skip
    chosen = maps[request.layer].astype(np.float64)
    query, key = maps.axes(request.layer)
    maxima = chosen.max((1, 2))
    scaled = np.rint(chosen / np.where(maxima > 0, maxima, 1)[:, None, None] * 255).clip(0, 255).astype(np.uint8)
    return {
        "layers": len(maps),
        "heads": chosen.shape[0],
        "streams": list(maps.streams),
        "query_tokens": _names(query, chosen.shape[1]),
        "key_tokens": _names(key, chosen.shape[2]),
        "layer": request.layer,
        "maps": base64.b64encode(scaled.tobytes()).decode(),
        "maxima": [float(m) if np.isfinite(m) else None for m in maxima],
    }


def _names(tokens: Sequence[str], count: int) -> list[str]:
    """Names for the tokens of a map: those of the text, or the patches of an image, after tokens such as [CLS]."""
    if len(tokens) == count:
        return list(tokens)
    side = int(count**0.5)
    extra = count - side * side
    names = ["[CLS]"] if extra == 1 else [f"token {n}" for n in range(extra)]
    return names + [f"patch {n // side},{n % side}" for n in range(count - extra)]
