"""Sounds from the bytes of a request."""

from __future__ import annotations

from whence.errors import InputTooLongError, MissingExtraError
from whence.models.listening import Sound, opened
from whence.web.refusals import ApiError
from whence.web.settings import Limits
from whence.web.uploads import Upload

__all__ = ["heard_in"]

SOUND = Upload("sound", "WAV, FLAC, OGG or MP3")
STARTS = (b"RIFF", b"fLaC", b"OggS", b"ID3")
"""What files of these formats begin with."""


def heard_in(data: str, limits: Limits) -> tuple[Sound, int]:
    """Samples and rate of a sound from base64 or a data URL."""
    raw = SOUND.bytes_in(data, limits.sound_bytes)
    if not _is_known(raw):
        raise SOUND.unreadable("it is not a sound of a format that is read here")
    try:
        return opened(raw, seconds=limits.sound_seconds, samples=limits.sound_samples, fastest=limits.sound_rate)
    except InputTooLongError as error:
        message, _, hint = str(error).partition(": ")
        raise ApiError(413, "too_long", f"{_sentence(message)}.", f"{_sentence(hint)}.") from None
    except MissingExtraError:
        raise ApiError(
            422, "not_installed", "This server reads plain WAV files alone: it lacks soundfile, which reads others.",
            "Send WAV, or type where the server runs: pip install 'whence-xai[sound]'.",
        ) from None  # fmt: skip
    except Exception as error:  # readers of files answer broken ones with whatever they stumbled over
        why = str(error).partition(" as a sound: ")[2].partition("; ")[0] or str(error)
        raise SOUND.unreadable(why[:100].rstrip(".")) from None


def _is_known(raw: bytes) -> bool:
    """Whether it begins as a file of these formats does: none of soundfile's many other readers sees what was sent."""
    if raw.startswith(STARTS):
        return True
    first, second = raw[:2] if len(raw) > 1 else (0, 0)
    return first == 0xFF and second & 0xE0 == 0xE0 and second & 0x06 != 0  # a frame of MP3: 11 ones, then its layer


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
