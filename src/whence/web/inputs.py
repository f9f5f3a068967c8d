"""The input of a request: a text as it is, an image or a sound from its bytes. Nothing is opened by name."""

from __future__ import annotations

from typing import Any

from whence import cancel
from whence.models import AbstractAdapter
from whence.web.catalogue import READS, kind_of, sides_of
from whence.web.images import decoded
from whence.web.refusals import ApiError
from whence.web.requests import InputRequest
from whence.web.settings import Limits
from whence.web.sounds import heard_in

__all__ = ["check_characters", "check_text", "check_tokens", "counted", "input_of"]

NAMES = {"text": "text", "image": "images", "sound": "sounds"}
HINTS = {
    "text": "Send text alone.",
    "image": "Send image, as base64, and nothing else.",
    "sound": "Send sound, as base64, and nothing else.",
    "image_text": "Send image, as base64, and text.",
}


def input_of(adapter: AbstractAdapter, request: InputRequest, limits: Limits, *, apart: bool = False) -> Any:
    """What the model is given: a text, a pair of texts, a picture, a picture with a text, or a sound; `apart` where a
    model that matches pictures with texts is to look at one of the two."""
    kind = kind_of(adapter)
    reads = READS[kind]
    if "image" in sides_of(adapter):
        if not apart:
            raise ApiError(422, "wrong_input", "This model compares two inputs.", "Send them to /api/similarity.")
        reads = ("image",) if request.image is not None else ("text",)
    given = {name for name in NAMES if getattr(request, name) is not None}
    if given != set(reads) or (request.pair is not None and reads != ("text",)):
        what = " with ".join(NAMES[name] for name in reads)
        raise ApiError(422, "wrong_input", f"This model reads {what}.", HINTS.get(kind, HINTS["text"]))
    if request.text is not None:
        check_text(adapter, request.text, request.pair, limits)
    if request.sound is not None:
        return heard_in(request.sound, limits)
    if request.image is not None:
        picture = decoded(request.image, limits)
        return picture if request.text is None else {"image": picture, "text": request.text}
    return request.text if request.pair is None else (request.text, request.pair)


def check_text(adapter: AbstractAdapter, text: str, pair: str | None, limits: Limits) -> None:
    """Refuse a text that is too long, or empty, before anything is computed."""
    for part in (text, pair or ""):
        check_characters(part, limits)
    if not text.strip():
        raise ApiError(422, "empty", "The text is empty: there is nothing to explain.", "Send some text.")
    check_tokens(adapter, text, pair, limits.tokens)


def check_characters(text: str, limits: Limits) -> None:
    """Refuse a text that would take long even to be counted in tokens."""
    if len(text) > limits.characters:
        raise ApiError(
            413, "too_long", f"The text has {len(text):,} characters; the limit is {limits.characters:,}.",
            "Shorten the text.",
        )  # fmt: skip


def check_tokens(adapter: AbstractAdapter, text: str, pair: str | None, most: int, more: int = 0) -> None:
    """Refuse a text of too many tokens before anything is computed; `more` are to be written after it."""
    count = adapter.tokens_in(text, pair)
    if count is None:
        return
    limit = min(adapter.limit or most, most)
    count += more
    if count > limit:
        raise ApiError(413, "too_long", f"The text has {count:,} tokens; the limit is {limit:,}.", "Shorten the text.")


def counted(adapter: AbstractAdapter, text: str, pair: str | None, limits: Limits) -> dict[str, Any]:
    """The answer of /api/tokens: how long a text is, and how much of it fits."""
    check_characters(pair or "", limits)
    if len(text) > limits.characters:
        text = text[: limits.characters]
    limit = min(adapter.limit or limits.tokens, limits.tokens)
    count = adapter.tokens_in(text, pair)
    if count is None or count <= limit:
        return {"tokens": count, "limit": limit, "cut": len(text)}
    low, high = 0, len(text)  # tokens grow with the text, so that halving finds the place
    while low < high:
        cancel.check()
        middle = (low + high + 1) // 2
        if (adapter.tokens_in(text[:middle], pair) or 0) <= limit:
            low = middle
        else:
            high = middle - 1
    words = len(text[:low].rstrip()) if text[low : low + 1].isspace() else text[:low].rfind(" ")
    return {"tokens": count, "limit": limit, "cut": words if words > 0 else low}
