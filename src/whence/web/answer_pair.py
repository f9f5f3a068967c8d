"""What makes two inputs similar: texts, and pictures where a model matches these with texts."""

from __future__ import annotations

from typing import Any

from whence.errors import WhenceError
from whence.models import AbstractAdapter
from whence.results import Pair
from whence.verbs.similarity import similarity
from whence.viz import pair_page
from whence.viz.verdicts import verdict
from whence.web.catalogue import Catalogue, sides_of
from whence.web.images import decoded
from whence.web.inputs import check_text, check_tokens
from whence.web.refusals import ApiError, of_library
from whence.web.requests import SimilarityRequest
from whence.web.settings import Limits

__all__ = ["answered", "compared"]


def answered(request: SimilarityRequest, catalogue: Catalogue, limits: Limits) -> dict[str, Any]:
    """The answer of /api/similarity."""
    pair = compared(request, catalogue, limits)
    return {"verdict": verdict(pair), "html": pair_page.body_of(pair), "data": pair_page.data_of(pair)}


def compared(request: SimilarityRequest, catalogue: Catalogue, limits: Limits) -> Pair:
    """The two inputs of a request, taken apart."""
    adapter = catalogue.model(request.model)
    if not sides_of(adapter):
        raise ApiError(422, "wrong_input", "This model embeds nothing.", "Choose one of kind pair from /api/info.")
    both = len(request.image or "") + len(request.pair_image or "")
    if request.image and request.pair_image and both * 3 // 4 > limits.image_bytes:
        message = f"The two image files are larger than {limits.image_bytes:,} bytes together."
        raise ApiError(413, "too_large", message, "Make them smaller.")
    first = _side(adapter, ("text", request.text), ("image", request.image), limits)
    second = _side(adapter, ("pair", request.pair), ("pair_image", request.pair_image), limits)
    try:
        made: Pair = similarity(adapter, first, second, method=request.method, measure=request.measure, progress=False)
    except WhenceError as error:
        raise of_library(error) from None
    return made


def _side(adapter: AbstractAdapter, text: tuple[str, str | None], image: tuple[str, str | None], limits: Limits) -> Any:
    """One input. A text is said to be one: it may look like the path of a picture."""
    (name, said), (other, seen) = text, image
    sees = "image" in sides_of(adapter)
    if seen is not None and not sees:
        raise ApiError(422, "wrong_input", "This model embeds texts alone.", f"Send {name} and leave {other} out.")
    if seen is not None and said is None:
        return {"image": decoded(seen, limits)}
    if said is None or seen is not None:
        which, how = "first" if name == "text" else "second", "missing" if said is None else "there twice"
        able = f"Send {name}, or {other} as base64." if sees else f"Send {name}."
        raise ApiError(422, "wrong_input", f"The {which} of the two inputs is {how}.", able)
    check_text(adapter, said, None, limits)
    check_tokens(adapter, said, None, limits.attention_tokens)
    return {"text": said} if sees else said
