"""Images from the bytes of a request."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

from whence import cancel
from whence.web.refusals import ApiError
from whence.web.settings import Limits
from whence.web.uploads import Upload

__all__ = ["decoded"]

LONGEST = 50
"""Processors that scale the shorter side to a fixed size would make a strip of pixels into a gigantic image."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
IMAGE = Upload("image", "PNG, JPEG, WebP, GIF or BMP")


ORIENTATION = 0x0112
"""EXIF's word for how a camera was held."""
STRIP = 256
"""Rows that are worked on at a time: whole copies of a large picture took 0.9 GB."""
SCANS = 100
"""Times that a JPEG may go over its picture, each of which takes as long as the first; cameras write about ten."""
COPIES = {"WEBP": 4}
"""Whole copies that Pillow has of a picture of a format as it unpacks it, where that is more than one."""


class _File(io.BytesIO):
    """A picture is read piece by piece as it is unpacked, and nobody may be waiting for it any more."""

    def read(self, size: int | None = -1) -> bytes:
        cancel.check()
        return super().read(size)


def decoded(data: str, limits: Limits) -> Any:
    """A picture from base64 or a data URL; upright, and on white where it is transparent."""
    from PIL import Image, UnidentifiedImageError

    raw = IMAGE.bytes_in(data, limits.image_bytes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit is below
            picture = Image.open(_File(raw), formats=FORMATS)
        most = limits.image_pixels // COPIES.get(picture.format or "", 1)
        if picture.width * picture.height > most:
            raise ApiError(
                413, "too_large", f"The image has {picture.width:,} × {picture.height:,} pixels; the limit for "
                f"{picture.format} is {most:,} altogether.", "Make it smaller.",
            )  # fmt: skip
        if (scans := _scans(raw)) > SCANS:
            raise IMAGE.unreadable(f"it goes over its pixels {scans:,} times, and {SCANS} are the limit")
        if max(picture.size) > LONGEST * min(picture.size):
            raise ApiError(
                422, "bad_image", f"The image is more than {LONGEST} times as long as it is wide, or as wide as long.",
                "Cut it to the part that matters.",
            )  # fmt: skip
        picture.draft(None, (limits.image_side, limits.image_side))  # a JPEG need not be unpacked in full
        picture.load()
        return _upright(_plain(picture, limits.image_side), picture.getexif().get(ORIENTATION, 1))
    except UnidentifiedImageError:
        raise IMAGE.unreadable("it is not an image of a format that is read here") from None
    except Image.DecompressionBombError:
        raise ApiError(413, "too_large", "The image has too many pixels.", "Make it smaller.") from None
    except ApiError:
        raise
    except Exception as error:  # Pillow's readers answer broken files with whatever they stumbled over
        raise IMAGE.unreadable(str(error)[:100]) from None


def _scans(raw: bytes) -> int:
    """How often a JPEG goes over its picture. Within a scan, 0xFF comes before 0 or one of eight marks, and what is
    behind its end may be anything (a film, on some phones).
    """
    if not raw.startswith(b"\xff\xd8"):
        return 0
    at, found = 2, 0
    while (at := raw.find(b"\xff", at)) >= 0 and at + 3 < len(raw):
        mark = raw[at + 1]
        if mark == 0xD9:
            break
        found += mark == 0xDA
        has_length = 0xC0 <= mark <= 0xFE and not 0xD0 <= mark <= 0xD8
        at += 2 + int.from_bytes(raw[at + 2 : at + 4]) if has_length else 1 + (mark != 0xFF)
    return found


def _plain(picture: Any, most: int) -> Any:
    """Grey or coloured and on white, no side longer than `most`: each pixel then is the mean of a small square."""
    from PIL import Image

    factor = math.ceil(max(picture.size) / most)
    if factor == 1 and picture.mode in ("L", "RGB") and "transparency" not in picture.info:
        return picture
    width, height = (math.ceil(side / factor) for side in picture.size)
    made = Image.new("L" if picture.mode == "L" and "transparency" not in picture.info else "RGB", (width, height))
    for top in range(0, height, STRIP):
        rows = picture.crop((0, top * factor, picture.width, min(picture.height, (top + STRIP) * factor)))
        rows.info.update(picture.info)
        made.paste(_on_white(rows, made.mode).reduce(factor), (0, top))
    return made


def _on_white(picture: Any, mode: str) -> Any:
    from PIL import Image

    if "A" in picture.getbands() or "transparency" in picture.info:
        shown = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown).convert(mode)
    return picture if picture.mode == mode else picture.convert(mode)


def _upright(picture: Any, orientation: int) -> Any:
    """Turned as EXIF says; Pillow's own function would copy it at its full size."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return picture.transpose(turns[orientation]) if orientation in turns else picture
