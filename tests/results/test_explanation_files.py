"""Files of results that are no such files, or no longer: refused in one sentence, in little memory."""

from __future__ import annotations

import io
import json
import random
from base64 import b64encode
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

import whence
from whence.errors import InputError
from whence.results import Explanation, Trace


@pytest.fixture
def exp() -> Explanation:
    return Explanation(scores=np.ones(3, np.float32), tokens=("a", "gem", "!"), target="positive", target_score=3.0,
                       method="lrp")  # fmt: skip


@pytest.mark.parametrize("kind", ["json", "npz"])
@pytest.mark.parametrize("reader", [Explanation, Trace])
def test_whatever_a_file_holds_is_read_or_refused(kind, reader, exp, tmp_path):
    path, chance = tmp_path / f"x.{kind}", random.Random(5)
    whole = exp.save(path).read_bytes()
    cut = [whole[: len(whole) * n // 10] for n in range(10)]
    changed = []
    for _ in range(100):
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        changed.append(bytes(flipped))
    for content in [*cut, *changed, b"[]", b"null", b'{"format": 2}', b"[" * 100_000]:
        path.write_bytes(content)
        with suppress(InputError):
            reader.load(path)


@pytest.mark.parametrize("reader", [Explanation, Trace])
def test_a_file_that_is_not_there(reader, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        reader.load(tmp_path / "x.json")
    with pytest.raises(InputError, match=r"save as \.json or \.npz"):
        reader.load(tmp_path / "x.csv")


@pytest.mark.parametrize("side", [8000, 20_000])
def test_a_small_picture_can_not_fill_the_memory(side, tmp_path):
    file = io.BytesIO()
    Image.new("1", (side, side)).save(file, "PNG")
    saved = whence.explain("digits", np.zeros((28, 28), np.uint8), "gi").save(tmp_path / "x.json")
    held = {**json.loads(saved.read_text()), "image": "data:image/png;base64," + b64encode(file.getvalue()).decode()}
    saved.write_text(json.dumps(held))
    with pytest.raises(InputError, match=r"x\.json' is damaged, .* (would take 192 MB of memory|exceeds limit)"):
        Explanation.load(saved)


def test_numbers_and_archives_that_nobody_can_read(tmp_path):
    exp = whence.explain("sentiment", "a gem", "gi")
    path = exp.save(tmp_path / "x.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "scores": [10**400]}))
    with pytest.raises(InputError, match="is damaged"):
        Explanation.load(path)
    path = exp.save(tmp_path / "x.npz")
    locked = path.read_bytes()
    for mark, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):  # as if a password were needed
        parts = locked.split(mark)
        locked = mark.join(
            [parts[0], *(p[: flags - 4] + bytes([p[flags - 4] | 1]) + p[flags - 3 :] for p in parts[1:])]
        )
    path.write_bytes(locked)
    with pytest.raises(InputError, match=r"is damaged, .* encrypted"):
        Explanation.load(path)


@pytest.mark.parametrize("reader", [Explanation, Trace])
def test_a_small_file_can_not_fill_the_memory(reader, tmp_path):
    file = io.BytesIO()
    np.savez_compressed(file, scores=np.zeros(100 * 2**20, np.uint8), meta=np.array("{}"))
    (tmp_path / "x.npz").write_bytes(file.getvalue())
    assert len(file.getvalue()) < 2**20
    with pytest.raises(InputError, match="would take 105 MB of memory"):
        reader.load(tmp_path / "x.npz")
