"""Files that hold no result: every kind of result says so in words."""

from __future__ import annotations

import pydoc

import numpy as np
import pytest

import whence
from tests.viz import made
from whence.core.recipe import Recipe
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
    Several,
    Trace,
)
from whence.results.concept_scores import TCAV
from whence.results.diagnosis import Diagnosis
from whence.results.tuning import Tuning

EXACT = [Explanation, Trace, Pair, Inside]
KINDS = [*EXACT, Patching, AttributionGraph, Citations, Comparison, Evaluation, TCAV, Diagnosis]
SAVED = {name: result for name, result in made.every().items() if name != "audit"}  # which nothing reads back
FILES = [
    (name, suffix) for name, result in SAVED.items() for suffix in result._writers() if suffix in (".json", ".npz")
]


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


@pytest.mark.parametrize(("name", "suffix"), FILES)
def test_a_result_of_another_kind_says_what_reads_it(name, suffix, tmp_path):
    path = SAVED[name].save(tmp_path / f"x{suffix}")
    own = Recipe if isinstance(SAVED[name], Tuning) else type(SAVED[name])
    for kind in {*KINDS, AttentionMaps, Several} - {own}:
        with pytest.raises(InputError, match=rf"'x\{suffix}' holds another kind of result, {own.__name__}: ") as said:
            kind.load(path)
        assert pydoc.locate(str(said.value).rpartition(" ")[2]) == own.load
    assert own.load(path)


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
    with pytest.raises(InputError, match=r"'both\.json' holds another kind .* with whence\.Comparison\.load"):
        Explanation.load(path)
    with pytest.raises(InputError, match=r"'one\.json' holds another kind .* with whence\.Explanation\.load"):
        Comparison.load(exp.save(tmp_path / "one.json"))
