"""Files of results that are no such files, or no longer: refused in one sentence, in little memory."""

from __future__ import annotations

import io
import random
from contextlib import suppress

import numpy as np
import pytest

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


@pytest.mark.parametrize("reader", [Explanation, Trace])
def test_a_small_file_can_not_fill_the_memory(reader, tmp_path):
    file = io.BytesIO()
    np.savez_compressed(file, scores=np.zeros(100 * 2**20, np.uint8), meta=np.array("{}"))
    (tmp_path / "x.npz").write_bytes(file.getvalue())
    assert len(file.getvalue()) < 2**20
    with pytest.raises(InputError, match="would take 105 MB of memory"):
        reader.load(tmp_path / "x.npz")
