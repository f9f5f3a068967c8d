"""The head view as a file; tests/browser opens it."""

from __future__ import annotations

import base64
import dataclasses
import re
import zlib

import numpy as np
import pytest

from whence.errors import InputError
from whence.results.maps import AttentionMaps
from whence.viz import heads

RNG = np.random.default_rng(0)
MAPS = AttentionMaps(
    maps=tuple(RNG.dirichlet(np.ones(5), size=(2, 5)).astype(np.float32) for _ in range(3)),
    streams=("self",) * 3,
    tokens=("a", "</script>", "c", "d", "e"),
)


def test_weights_come_back_to_a_255th_of_the_largest():
    page = heads.page(MAPS)
    for n, layer in enumerate(MAPS.maps):
        packed = re.search(rf'id="whence-layer-{n}">([^<]*)<', page)[1]
        steps = np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8).reshape(layer.shape)
        largest = layer.max((1, 2), keepdims=True)
        assert np.abs(steps / 255 * largest - layer).max() <= 0.5 / 255 * largest.max() + 1e-6  # half a step
    assert page.count("</script>") == 3 + 2


def test_a_head_that_looks_nowhere_is_zero():
    steps, largest = heads.bytes_of(np.zeros((1, 2, 2), np.float32))
    assert largest == [0.0]
    assert not steps.any()


def test_too_large_a_file_says_to_choose_layers(monkeypatch):
    monkeypatch.setattr(heads, "LARGEST", 150)
    with pytest.raises(InputError, match=r"choose layers first, dataclasses.replace\(maps, maps=maps.maps\[:1\]"):
        heads.page(MAPS)
    monkeypatch.setattr(heads, "LARGEST", 1000)
    heads.page(dataclasses.replace(MAPS, maps=MAPS.maps[:1], streams=MAPS.streams[:1]))
