"""The input of a request: a text as it is, an image from its bytes. Nothing is opened by name."""

from __future__ import annotations

import base64
import binascii
import io
import re
import warnings
from typing import Any

from whence.models import AbstractAdapter
from whence.web.catalogue import kind_of
from whence.web.refusals import ApiError
from whence.web.settings import Limits

__all__ = ["check_tokens", "decoded", "input_of"]

LONGEST = 50
"""Processors that scale the shorter side to a fixed size would make a strip of pixels into a gigantic image."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")


def input_of(adapter: AbstractAdapter, text: str | None, pair: str | None, image: str | None, limits: Limits) -> Any:
    """What the model is given: a text, a pair of texts, or a picture."""
    if kind_of(adapter) == "image":
        if image is None or text is not None or pair is not None:
            raise ApiError(422, "wrong_input", "This model reads images.", "Send image, as base64, and no text.")
        return decoded(image, limits)
    if text is None or image is not None:
        raise ApiError(422, "wrong_input", "This model reads text.", "Send text, and no image.")
    for part in (text, pair or ""):
        if len(part) > limits.characters:
            raise ApiError(
                413, "too_long", f"The text has {len(part):,} characters; the limit is {limits.characters:,}.",
                "Shorten the text.",
            )  # fmt: skip
    if not text.strip():
        raise ApiError(422, "empty", "The text is empty: there is nothing to explain.", "Send some text.")
    check_tokens(adapter, text, pair, limits.tokens)
    return text if pair is None else (text, pair)


def check_tokens(adapter: AbstractAdapter, text: str, pair: str | None, most: int, more: int = 0) -> None:
    """Refuse a text of too many tokens before anything is computed; `more` are to be written after it."""
    count = adapter.tokens_in(text, pair)
    if count is None:
        return
    limit = min(adapter.limit or most, most)
    count += more
    if count > limit:
        raise ApiError(413, "too_long", f"The text has {count:,} tokens; the limit is {limit:,}.", "Shorten the text.")


def decoded(data: str, limits: Limits) -> Any:
    """A picture from base64 or a data URL; upright, and on white where it is transparent."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    raw = _bytes(data, limits.image_bytes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit is below
            picture = Image.open(io.BytesIO(raw), formats=FORMATS)
        if picture.width * picture.height > limits.image_pixels:
            raise ApiError(
                413, "too_large", f"The image has {picture.width:,} × {picture.height:,} pixels; the limit is "
                f"{limits.image_pixels:,} altogether.", "Make it smaller.",
            )  # fmt: skip
        if max(picture.size) > LONGEST * min(picture.size):
            raise ApiError(
                422, "bad_image", f"The image is more than {LONGEST} times as long as it is wide, or as wide as long.",
                "Cut it to the part that matters.",
            )  # fmt: skip
        picture.load()
        upright = ImageOps.exif_transpose(picture)
        if "A" in upright.getbands() or "transparency" in upright.info:
            shown = upright.convert("RGBA")
            white = Image.new("RGBA", shown.size, "white")
            return Image.alpha_composite(white, shown).convert("RGB")
        return upright.convert("RGB") if upright.mode not in ("L", "RGB") else upright
    except UnidentifiedImageError:
        raise _unreadable("it is not an image of a format that is read here") from None
    except Image.DecompressionBombError:
        raise ApiError(413, "too_large", "The image has too many pixels.", "Make it smaller.") from None
    except ApiError:
        raise
    except Exception as error:  # Pillow's readers answer broken files with whatever they stumbled over
        raise _unreadable(str(error)[:100]) from None


def _bytes(data: str, most: int) -> bytes:
    match = re.match(r"data:[\w.+-]+/[\w.+-]+(;[\w=.+-]+)*;base64,", data[:200])
    if data[:5].lower() == "data:" and not match:
        raise _unreadable("the data URL is not base64")
    body = data[match.end() :] if match else data
    if len(body) > most * 4 // 3 + 8:
        raise ApiError(413, "too_large", f"The image file is larger than {most:,} bytes.", "Make it smaller.")
    try:
        raw = base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError):
        raise _unreadable("it is not base64") from None
    if len(raw) > most:
        raise ApiError(413, "too_large", f"The image file is larger than {most:,} bytes.", "Make it smaller.")
    return raw


def _unreadable(why: str) -> ApiError:
    return ApiError(
        422,
        "bad_image",
        f"The image can't be read: {why}.",
        "Send PNG, JPEG, WebP, GIF or BMP as base64 or a data URL.",
    )
