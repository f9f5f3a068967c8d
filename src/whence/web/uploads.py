"""Files in requests: base64 or a data URL, up to a size."""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

from whence.web.refusals import ApiError

__all__ = ["Upload"]


class Upload(NamedTuple):
    """What a file is to be, for those that are not."""

    name: str
    """As in {"image": "…"}."""
    formats: str
    """In words."""

    def bytes_in(self, data: str, most: int) -> bytes:
        """The file's bytes; `most` at most."""
        match = re.match(r"data:[\w.+-]+/[\w.+-]+(;[\w=.+-]+)*;base64,", data[:200])
        if data[:5].lower() == "data:" and not match:
            raise self.unreadable("the data URL is not base64")
        body = data[match.end() :] if match else data
        if len(body) > most * 4 // 3 + 8:
            raise self._too_large(most)
        try:
            raw = base64.b64decode("".join(body.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.unreadable("it is not base64") from None
        if len(raw) > most:
            raise self._too_large(most)
        return raw

    def unreadable(self, why: str) -> ApiError:
        hint = f"Send {self.formats} as base64 or a data URL."
        return ApiError(422, f"bad_{self.name}", f"The {self.name} can't be read: {why}.", hint)

    def _too_large(self, most: int) -> ApiError:
        message = f"The {self.name} file is larger than {most:,} bytes."
        return ApiError(413, "too_large", message, "Make it smaller.")
