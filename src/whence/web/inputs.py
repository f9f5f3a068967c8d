"""The input of a request: a text as it is, an image or a sound from its bytes. Nothing is opened by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whence import cancel
from whence.models import AbstractAdapter
from whence.models.choosing import Chooser
from whence.web.catalogue import READS, chosen_for, kind_of, sides_of
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
    """What the model is given: a text, a pair of texts, a picture, a picture with a text, or a sound; with labels where
    it chooses among them; `apart` where a model that matches pictures with texts is to look at one of the two."""
    if isinstance(adapter, Chooser) and not apart:
        return _choice(adapter, request, limits)
    if request.labels is not None:
        if isinstance(adapter, Chooser):
            message, hint = "There is no attention over an input and labels.", "Send one of the two, without labels."
        else:
            message, hint = "This model takes no labels: it has its own, or none.", "Leave labels out."
        raise ApiError(422, "wrong_input", message, hint)
    kind = kind_of(adapter)
    reads = READS[kind]
    if "image" in sides_of(adapter):
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


def _choice(adapter: Chooser, request: InputRequest, limits: Limits) -> dict[str, Any]:
    """An input and the labels to choose from, by the names that the model has for them."""
    reads = chosen_for(adapter)
    given = {name for name in NAMES if getattr(request, name) is not None}
    if request.labels is None or given != {reads} or request.pair is not None:
        form = "" if reads == "text" else ", as base64,"
        compares = " Two inputs go to /api/similarity." if sides_of(adapter) else ""
        message = f"This model chooses among labels for {NAMES[reads]}."
        raise ApiError(422, "wrong_input", message, f"Send {reads}{form} and labels.{compares}")
    _check_labels(request.labels, limits)
    if request.text is not None:
        check_text(adapter, request.text, None, limits)
    _check_rows(adapter, adapter.rows_of({"text": request.text}, request.labels), limits)
    texts = {adapter.texts: request.labels}
    if request.sound is not None:
        return {"audio": heard_in(request.sound, limits), **texts}
    if request.image is not None:
        return {"image": decoded(request.image, limits), **texts}
    return {"text": request.text, **texts}


def _check_labels(labels: Sequence[str], limits: Limits) -> None:
    if len(labels) > limits.labels:
        raise ApiError(
            422, "too_many", f"{len(labels):,} labels; the limit is {limits.labels}.", f"Send {limits.labels} at most."
        )
    if not labels or not all(label.strip() for label in labels):
        raise ApiError(422, "empty", "There are no labels, or one is empty.", "Send texts to choose from.")
    if len({label.strip() for label in labels}) < len(labels):
        raise ApiError(422, "invalid", "A label is there twice.", "Send each once: they are the targets.")


def _check_rows(adapter: Chooser, rows: Sequence[Sequence[str]], limits: Limits) -> None:
    """Refuse texts that are too long with one of the labels, or with all of them: the model reads each by itself."""
    total = 0
    for row in rows:
        one = "label" if len(row) == 1 else "text with a label"
        total += check_tokens(adapter, row[0], row[1] if len(row) > 1 else None, limits.tokens, what=one)
        if total > limits.tokens:
            all_of_them = "All labels together have" if len(row) == 1 else "The text, read with each label, has"
            message = f"{all_of_them} more than {limits.tokens:,} tokens, the limit."
            raise ApiError(413, "too_long", message, "Send fewer labels, or shorter ones.")


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


def check_tokens(
    adapter: AbstractAdapter, text: str, pair: str | None, most: int, more: int = 0, what: str = "text"
) -> int:
    """How many tokens a text has; too many are refused before anything is computed. `more` will be written after it."""
    count = adapter.tokens_in(text, pair)
    if count is None:
        return 0
    limit = min(adapter.limit or most, most)
    count += more
    if count > limit:
        message = f"The {what} has {count:,} tokens; the limit is {limit:,}."
        raise ApiError(413, "too_long", message, f"Shorten the {what}.")
    return count


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
