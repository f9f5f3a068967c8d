"""Files that hold no result: every kind of result says so in words."""

from __future__ import annotations

import numpy as np
import pytest

import whence
from tests.viz import made
from whence.errors import InputError
from whence.results import (
    AttentionMaps,
    AttributionGraph,
    Citations,
    Comparison,
    Evaluation,
    Explanation,
    Inside,
    Pair,
    Patching,
    Trace,
)
from whence.results.concept_scores import TCAV
from whence.results.diagnosis import Diagnosis

EXACT = [Explanation, Trace, Pair, Inside]
KINDS = [*EXACT, Patching, AttributionGraph, Citations, Comparison, Evaluation, TCAV, Diagnosis]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_not_there(kind, tmp_path):
    with pytest.raises(InputError, match=r"no such file: .*none\.json"):
        kind.load(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"can't read 'x\.html': save as \.json"):
        kind.load(tmp_path / "x.html")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [b"", b'{"format": ', b"\xff\xfe", b"3", b"[]", b"null", b"{}", b'{"format": 1}'])
def test_a_file_of_anything_else(kind, content, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        kind.load(str(path))


@pytest.mark.parametrize("kind", [*EXACT, AttentionMaps])
def test_arrays_of_anything_else(kind, tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(InputError, match="is damaged"):
        kind.load(path)
    np.savez(path, other=np.zeros(2))
    with pytest.raises(InputError, match="is damaged"):
        kind.load(path)
    np.savez_compressed(path, meta=np.zeros(20_000_000))
    with pytest.raises(InputError, match="MB of memory"):
        kind.load(path)


def test_a_comparison_is_loaded_as_one(tmp_path):
    exp = made.inside().inputs
    both = Comparison((exp, exp))
    path = both.save(tmp_path / "both.json")
    assert whence.Comparison.load(path).to_dict() == both.to_dict()
    with pytest.raises(InputError, match=r"holds a comparison: read it with whence\.Comparison\.load"):
        Explanation.load(path)
    with pytest.raises(InputError, match=r"no comparison; .* whence\.Explanation\.load"):
        Comparison.load(exp.save(tmp_path / "one.json"))
