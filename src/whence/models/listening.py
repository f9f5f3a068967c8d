"""Reading sounds: arrays, files and bytes to samples at the rate a model wants, and pictures of what it hears."""

from __future__ import annotations

import io
import wave
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError, InputTooLongError, MissingExtraError

__all__ = ["Sound", "drawn_spectrum", "drawn_wave", "heard", "opened"]

Sound = np.ndarray
"""Samples of one channel, from -1 to 1, as float32."""
SLOWEST = 100
"""Samples in a second below which a number is no rate."""
WANTED = "pass a file, samples (numbers along one axis), (samples, rate) or {'array': …, 'sampling_rate': …}"
STEPS = 640
"""Of a ratio of rates, at most: 11,025 to 16,000 are 441 to 640. Rates that nobody uses are off by a millionth."""
HEIGHT = 96
"""Of a drawing, in pixels."""


def heard(item: Any, rate: int) -> Sound:
    """The samples of a sound at `rate`: of an array, (array, rate), {"array": …, "sampling_rate": …}, a file, bytes."""
    if isinstance(item, Mapping):
        array = next((item[k] for k in ("array", "raw", "samples") if item.get(k) is not None), None)
        own = item.get("sampling_rate", item.get("rate"))
        if array is None:
            held = next((item[k] for k in ("path", "bytes") if item.get(k) is not None), None)
            if held is None:
                raise InputError(
                    f"a dict with {', '.join(map(repr, list(item)[:6]))} is no sound: one holds "
                    "{'array': samples, 'sampling_rate': 16000}, or 'path', or 'bytes'"
                )
            return heard(held, rate)
        return _at_rate(_mono(array), int(own or rate), rate)
    if isinstance(item, tuple) and len(item) == 2:
        first, second = item
        array, own = (second, first) if isinstance(first, (int, np.integer)) else (first, second)
        if not isinstance(own, (int, float, np.integer)):
            raise InputError("a sound as a pair is (samples, rate): the rate is a number of samples in a second")
        return _at_rate(_mono(array), int(own), rate)
    if isinstance(item, (str, Path, bytes, bytearray)):
        array, own = opened(item)
        return _at_rate(array, own, rate)
    return _mono(item)


def _mono(samples: Any, channels: int | None = None) -> Sound:
    """One channel of floats. Whole numbers are scaled by what their type holds. `channels`: their axis, where it is
    known; else the shorter one."""
    array = samples.numpy(force=True) if isinstance(samples, Tensor) else np.asarray(samples)
    if array.dtype == object or array.ndim not in (1, 2) or array.dtype.kind not in "fiu":
        raise InputError(f"can't read a sound from {type(samples).__name__}: {WANTED}")
    if not array.size:
        raise InputError("the sound is empty: it has no samples")
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        most = max(abs(limits.min), limits.max)
        if array.dtype.itemsize == 8:  # numbers of Python: of 16 bits, or of 32
            most = 2**15 if np.abs(array).max() <= 2**15 else 2**31
        array = array.astype(np.float32) / most
        if limits.min == 0:
            array = 2 * array - 1
    array = array.astype(np.float32)
    if array.ndim == 2:
        array = array.mean(int(array.shape[0] > array.shape[1]) if channels is None else channels)
    if not np.isfinite(array).all():
        raise InputError("the sound has samples that are no finite numbers")
    return array


def _at_rate(samples: Sound, own: int, wanted: int) -> Sound:
    """The same sound in other steps: its spectrum, cut or filled up, which adds no tone that was not there.

    A little silence goes behind it, so that it is whole steps at both rates, and as many as have small factors: others
    take several times the memory.
    """
    if own < SLOWEST:
        raise InputError(f"a sound has a rate of thousands of samples a second, not {own}: pass (samples, rate)")
    if own == wanted:
        return samples
    count, ratio = max(1, round(len(samples) * wanted / own)), Fraction(own, wanted).limit_denominator(STEPS)
    steps = _smooth(-(-len(samples) // ratio.numerator))
    length, filled = steps * ratio.numerator, max(count, steps * ratio.denominator)
    spectrum = torch.fft.rfft(torch.from_numpy(samples), n=length)
    made: Sound = (torch.fft.irfft(spectrum, n=filled)[:count] * (filled / length)).numpy()
    return made


def _smooth(least: int) -> int:
    """The first number from `least` on that is a product of 2, 3 and 5.

    >>> [_smooth(n) for n in (1, 7, 16000, 19661)]
    [1, 8, 16000, 19683]
    """
    found = 1 << (least - 1).bit_length() if least > 1 else 1
    five = 1
    while five < found:
        three = five
        while three < found:
            whole = -(-least // three)
            found = min(found, three << (whole - 1).bit_length() if whole > 1 else three)
            three *= 3
        five *= 5
    return found


def opened(
    source: Any, *, seconds: float | None = None, samples: int | None = None, fastest: int | None = None
) -> tuple[Sound, int]:
    """Samples and rate of a file: WAV by Python itself, everything else by soundfile.

    A file that is longer than `seconds`, holds more than `samples` over all its channels, or has more than `fastest` of
    them in a second, is refused before it is unpacked: a small one can hold hours.
    """
    most = _Most(seconds, samples, fastest)
    name = f"{len(source)} bytes" if isinstance(source, (bytes, bytearray)) else repr(str(source))
    stream = io.BytesIO(source) if isinstance(source, (bytes, bytearray)) else Path(source).expanduser()
    if isinstance(stream, Path) and not stream.is_file():
        raise InputError(f"no such sound: {name}, which is taken for a path; {WANTED}")
    try:
        with wave.open(str(stream) if isinstance(stream, Path) else stream) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = file.readframes(file.getnframes())  # no more than the file has, whatever it says
        most.check(len(raw) // (width * channels), rate, channels)
        if width == 2 or width == 4:
            array: np.ndarray = np.frombuffer(raw, dtype=f"<i{width}")
        elif width == 1:
            array = np.frombuffer(raw, dtype=np.uint8)
        else:  # 24 bits: the upper three bytes of four
            parts = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 3)
            array = np.concatenate([np.zeros((len(parts), 1), np.uint8), parts], 1).view("<i4").reshape(-1)
        return _mono(array.reshape(-1, channels), channels=1), rate
    except (wave.Error, EOFError):
        pass  # no WAV, or one of floats
    except InputError:
        raise
    except ValueError:
        raise InputError(f"{name} can't be read as a sound: the file is cut short") from None
    try:
        import soundfile
    except ImportError:
        raise MissingExtraError("soundfile", "sound", f"{name}, which is no plain WAV file,") from None
    try:
        if isinstance(stream, io.BytesIO):
            stream.seek(0)
        with soundfile.SoundFile(stream) as file:
            most.check(file.frames, file.samplerate, file.channels)
            array, rate = file.read(dtype="float32", always_2d=True), file.samplerate
    except (RuntimeError, OSError, TypeError) as error:  # soundfile's TypeError: raw samples say no rate
        why = "no format that is known" if "recognised" in str(error) else error
        raise InputError(f"{name} can't be read as a sound: {why}; {WANTED}") from None
    return _mono(array, channels=1), int(rate)


class _Most(NamedTuple):
    """How much a file may hold; None for any."""

    seconds: float | None
    samples: int | None
    fastest: int | None

    def check(self, frames: int, rate: int, channels: int) -> None:
        if self.seconds is not None and frames > self.seconds * rate:
            length = f"{frames / rate:,.1f} s long" if rate else "endless"
            raise InputTooLongError(f"the sound is {length}, and the limit is {self.seconds:g} s: cut it")
        if self.fastest is not None and rate > self.fastest:
            raise InputTooLongError(
                f"the sound has {rate:,} samples a second, and the limit is {self.fastest:,}: save it with fewer"
            )
        if self.samples is not None and frames * channels > self.samples:
            raise InputTooLongError(
                f"the sound has {frames * channels:,} samples, and the limit is {self.samples:,}: save it with fewer "
                "channels, or fewer samples in a second"
            )


def drawn_wave(samples: Sound, columns: int) -> np.ndarray:
    """A picture of a wave: at every column from the lowest to the highest sample."""
    width = max(columns, min(1200, len(samples)))
    edges = np.linspace(0, len(samples), width + 1).astype(int)
    size = float(np.abs(samples).max()) or 1.0
    picture = np.full((HEIGHT, width, 3), 255, np.uint8)
    for x, (a, b) in enumerate(pairwise(edges)):
        part = samples[a : max(b, a + 1)]
        low, high = ((1 - v / size) / 2 * (HEIGHT - 1) for v in (float(part.max()), float(part.min())))
        picture[int(low) : int(high) + 1, x] = 60
    return picture


def drawn_spectrum(spectrum: Tensor) -> np.ndarray:
    """A picture of a spectrum (frequency, from high to low; time): the louder, the darker."""
    values = spectrum.float().numpy(force=True)
    low, high = float(values.min()), float(values.max())
    grey = (255 - (values - low) / (high - low or 1) * 225).astype(np.uint8)
    grey = np.repeat(grey, max(1, HEIGHT // max(1, grey.shape[0])), 0)
    return np.repeat(grey[..., None], 3, -1)
