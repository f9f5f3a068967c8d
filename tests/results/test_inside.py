"""An inside: what is strongest, and files that hold it exactly."""

from __future__ import annotations

import numpy as np
import pytest

from tests.viz import made
from whence.errors import InputError, UnknownNameError
from whence.results import Inside


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_saved_and_loaded_exactly(suffix, tmp_path):
    inside = made.inside()
    again = Inside.load(inside.save(tmp_path / f"x{suffix}"))
    assert again.to_dict() == inside.to_dict()
    assert again.receipts == inside.receipts
    for place, held in inside.scores.items():
        assert type(again[place]) is type(held)
        for row, other in zip(held, again[place], strict=True):
            np.testing.assert_array_equal(row, other)


def test_the_strongest_for_and_against():
    inside = made.inside()
    assert inside.top("heads", 2) == [(1, 0, -2.0), (0, 1, 1.5)]
    assert inside.top("layers", 1) == [(1, "gem", 3.0)]
    assert inside.top("mlps", 1) == [(1, 2, 0.75)]  # three places and two tokens: numbers
    assert inside.top("block.norm", 1) == [(1, 0.5)]


def test_scores_can_not_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        made.inside()["heads"][0, 0] = 1.0


def test_what_is_not_there():
    with pytest.raises(UnknownNameError, match=r"Known: block\.norm, heads"):
        made.inside().top("haeds")
    with pytest.raises(InputError, match="no inside"):
        Inside.from_dict({"format": 1})


def test_said_in_short():
    assert repr(made.inside()).startswith("<Inside of 'positive' by lrp, 2 layers: layers 2×2; heads 2×2; mlps 2 rows")
