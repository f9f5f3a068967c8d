"""Pictures from requests: as Pillow would show them, and without many copies of large ones."""

from __future__ import annotations

import base64
import io
import resource
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image, ImageOps

from whence import cancel
from whence.web import images
from whence.web.images import decoded
from whence.web.refusals import ApiError
from whence.web.settings import Limits

CHANCE = np.random.default_rng(0)


def sent(picture, form="PNG", **options):
    file = io.BytesIO()
    picture.save(file, form, **options)
    return base64.b64encode(file.getvalue()).decode()


def shown(data):
    """What Pillow makes of it, in whole copies."""
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(base64.b64decode(data))))
    if "A" in picture.getbands() or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return picture if picture.mode in ("L", "RGB") else picture.convert("RGB")


def some(mode, size=(23, 41)):
    bands = len(Image.new(mode, (1, 1)).getbands())
    pixels = CHANCE.integers(0, 256, (size[1], size[0], bands), dtype=np.uint8)
    return Image.fromarray(pixels.squeeze()) if mode != "P" else Image.fromarray(pixels[..., 0]).quantize(16)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA"])
def test_on_white_in_strips_as_in_one(mode, monkeypatch):
    monkeypatch.setattr(images, "STRIP", 8)
    options = {"transparency": 3} if mode == "P" else {}
    data = sent(some(mode), **options)
    assert np.array_equal(decoded(data, Limits()), shown(data))


@pytest.mark.parametrize("turn", range(10))
def test_upright(turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    data = sent(some("RGB"), exif=exif)
    assert np.array_equal(decoded(data, Limits()), shown(data))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_large_ones_are_scaled_down_by_a_whole_number(mode, monkeypatch):
    monkeypatch.setattr(images, "STRIP", 8)
    data = sent(some(mode, (50, 101)))
    small = decoded(data, Limits(image_side=40))
    assert small.size == (17, 34)
    assert np.array_equal(small, shown(data).reduce(3))


def test_a_photograph_is_unpacked_small():
    data = sent(some("RGB", (800, 1600)), "JPEG")
    assert decoded(data, Limits(image_side=200)).size == (100, 200)


def test_a_picture_that_goes_over_itself_again_and_again():
    """Each of thousands of scans takes as long as the first, and a scan is some 60 bytes."""
    file = io.BytesIO()
    some("RGB").save(file, "JPEG", progressive=True)
    fine = file.getvalue()
    assert 1 < fine.count(b"\xff\xda") <= images.SCANS
    assert decoded(base64.b64encode(fine).decode(), Limits()).size == (23, 41)
    scan = fine[fine.rindex(b"\xff\xda") : -2]
    mpf = b"\xff\xe2\x00\x08MPF\x00II"  # of several pictures in one file: Pillow calls it MPO
    for head in (fine[:2], fine[:2] + mpf):
        many = base64.b64encode(head + fine[2:-2] + scan * images.SCANS + fine[-2:]).decode()
        with pytest.raises(ApiError, match=r"goes over its pixels 1.. times, and 100 are the limit"):
            decoded(many, Limits())
    filmed = base64.b64encode(fine + scan * images.SCANS).decode()  # behind its end, some phones put a film
    assert decoded(filmed, Limits()).size == (23, 41)


def test_formats_that_take_copies_may_be_as_much_smaller():
    picture = some("RGB", (20, 20))
    limits = Limits(image_pixels=399 * images.COPIES["WEBP"])
    assert decoded(sent(picture), limits).size == (20, 20)
    with pytest.raises(ApiError, match="20 × 20 pixels; the limit for WEBP is 399"):
        decoded(sent(picture, "WEBP"), limits)


def test_nobody_unpacks_what_nobody_waits_for():
    token = cancel.Token()
    token.cancel("the client left")
    with cancel.scope(token), pytest.raises(cancel.Cancelled):
        decoded(sent(some("RGB")), Limits())


PEAK = """
import base64, io, resource
from PIL import Image
from whence.web.images import decoded
from whence.web.settings import Limits
file = io.BytesIO()
Image.new("RGBA", (3150, 3150), (200, 30, 90, 128)).save(file, "PNG", compress_level=1)
data = base64.b64encode(file.getvalue()).decode()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert decoded(data, Limits(image_side=2048)).size == (1575, 1575)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 3150**2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the unit of ru_maxrss is another")
def test_memory_is_one_unpacked_picture_and_little_more():
    """Writing it took 4 bytes a pixel before; reading takes as much again, the result 1, a strip less than 1."""
    assert resource
    out = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True).stdout
    assert float(out) < 4
