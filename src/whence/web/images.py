"""Images from the bytes of a request."""

from __future__ import annotations

import io
import warnings
from typing import Any

from whence.web.refusals import ApiError
from whence.web.settings import Limits
from whence.web.uploads import Upload

__all__ = ["decoded"]

LONGEST = 50
"""Processors that scale the shorter side to a fixed size would make a strip of pixels into a gigantic image."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
IMAGE = Upload("image", "PNG, JPEG, WebP, GIF or BMP")


def decoded(data: str, limits: Limits) -> Any:
    """A picture from base64 or a data URL; upright, and on white where it is transparent."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    raw = IMAGE.bytes_in(data, limits.image_bytes)
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
        raise IMAGE.unreadable("it is not an image of a format that is read here") from None
    except Image.DecompressionBombError:
        raise ApiError(413, "too_large", "The image has too many pixels.", "Make it smaller.") from None
    except ApiError:
        raise
    except Exception as error:  # Pillow's readers answer broken files with whatever they stumbled over
        raise IMAGE.unreadable(str(error)[:100]) from None
