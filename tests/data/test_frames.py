"""Columns in memory, of every library, without importing any."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import whence
from whence.data.frames import is_frame, is_series, values_of
from whence.data.labelled import labelled
from whence.data.opening import open_dataset
from whence.errors import InputError

COLUMNS = {"review": ["a gem", None, "so dull"], "stars": [5, 3, 1]}
FRAMES = {"pandas": pd.DataFrame(COLUMNS), "polars": pl.DataFrame(COLUMNS), "pyarrow": pa.table(COLUMNS)}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


def test_frames_are_told_from_columns_and_from_lists(frame):
    assert is_frame(frame)
    assert not is_series(frame)
    for column in (pd.Series([1]), pl.Series([1])):
        assert is_series(column)
        assert not is_frame(column)
    for other in (["a"], "text", np.zeros(3), {"text": ["a"]}, ("a", "b"), None):
        assert not is_frame(other)
        assert not is_series(other)


def test_values_and_what_is_missing(frame):
    assert values_of(frame, "review") == ["a gem", None, "so dull"]
    assert values_of(frame, ["review", "stars"]) == [("a gem", 5), (None, 3), ("so dull", 1)]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_everything_that_is_called_missing_is_none(missing):
    assert values_of(pd.Series(["a", missing], dtype=object)) == ["a", None]


def test_records_from_any_row_on(frame):
    data = open_dataset(frame)
    assert data.columns() == ["review", "stars"]
    assert data.count() == 3
    assert list(data.records(1)) == [{"review": None, "stars": 3}, {"review": "so dull", "stars": 1}]


def test_a_column_is_a_data_set():
    data = open_dataset(pd.Series(["a gem", "so dull"], name="review"))
    assert [r["review"] for r in data.records()] == ["a gem", "so dull"]


@pytest.mark.parametrize("library", FRAMES)
def test_rows_with_labels(library):
    columns = {"text": ["a gem", "so dull"], "label": [1, 0]}
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library](columns)
    assert [(row.input, row.label) for row in labelled(frame)] == [("a gem", 1), ("so dull", 0)]


def test_a_run_over_a_frame_explains_its_rows(frame, tmp_path):
    done = whence.run(frame, model="sentiment", out=tmp_path / "run", text="review", progress=False)
    assert (done.rows, done.failed) == (3, 1)  # one has no text
    with pytest.raises(InputError, match=r"no column 'text'.* review, stars. Say which one: text="):
        whence.run(frame, model="sentiment", out=tmp_path / "other", progress=False)
