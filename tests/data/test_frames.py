"""Columns in memory, of every library, without importing any."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import whence
from whence.data.frames import column, is_frame, is_series, values_of
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
    for single in (pd.Series([1]), pl.Series([1])):
        assert is_series(single)
        assert not is_frame(single)
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


class Splits(dict):
    """What `datasets` returns for a data set of several parts."""

    @property
    def column_names(self):
        return {name: ["text", "label"] for name in self}


def test_one_of_several_parts_must_be_chosen():
    data = Splits(train=[], test=[])
    for take in (labelled, open_dataset):
        with pytest.raises(InputError, match=r"data\['train'\]"):
            take(data)


def test_columns_are_matched_by_place_and_not_by_index():
    frame = pd.DataFrame({"text": ["a", "b", "c"], "label": [0, 1, 2]}).iloc[[2, 0, 1]]
    rows = labelled({"text": frame["text"].tolist(), "label": frame["label"]})
    assert [(r.input, r.label) for r in rows] == [("c", 2), ("a", 0), ("b", 1)]
    with pytest.raises(InputError, match="one value, not a column"):
        labelled({"text": "splendid", "label": 1})


@pytest.mark.parametrize("names", [("text", "text_pair"), ("question", "sentence"), ("premise", "hypothesis")])
def test_pairs_keep_both_texts(names):
    (row,) = labelled([{names[0]: "one", names[1]: "two", "label": 1}])
    assert row.input == ("one", "two")
    assert row.label == 1


def rows():
    yield from ({"review": text, "stars": stars} for text, stars in zip(*COLUMNS.values(), strict=True))


class Stream:
    """A stream of `datasets`: it may not know its columns, and gives tensors if it was told to."""

    def __init__(self, form=None, known=None):
        self.form, self.column_names = form, known

    def with_format(self, form):
        return Stream(form, self.column_names)

    def __getitem__(self, name):
        return [row[name] for row in self]

    def __iter__(self):
        return rows() if self.form is None else iter([object()])


def of_datasets(make):
    def made():
        library = pytest.importorskip("datasets")
        return make(library)

    return made


HELD = {
    "reader": lambda: pa.table(COLUMNS).to_reader(),
    "batch": lambda: pa.table(COLUMNS).to_batches()[0],
    "scanned": lambda: pyarrow.dataset.dataset(pa.table(COLUMNS)),
    "lazy": lambda: pl.DataFrame(COLUMNS).lazy(),
    "generator": rows,
    "stream": lambda: Stream("torch"),
    "named stream": lambda: Stream("torch", ["review", "stars"]),
    "Dataset": of_datasets(lambda library: library.Dataset.from_dict(COLUMNS)),
    "Dataset of tables": of_datasets(lambda library: library.Dataset.from_dict(COLUMNS).with_format("arrow")),
    "Dataset of frames": of_datasets(lambda library: library.Dataset.from_dict(COLUMNS).with_format("pandas")),
    "IterableDataset": of_datasets(lambda library: library.IterableDataset.from_generator(rows)),
}


@pytest.mark.parametrize("kind", HELD)
def test_what_people_hold_gives_the_same_rows(kind):
    data = open_dataset(HELD[kind]())
    assert data.columns() == ["review", "stars"]
    assert [dict(record) for record in data.records()] == list(rows())
    assert list(column(HELD[kind](), "review")) == COLUMNS["review"]


@pytest.mark.parametrize("kind", HELD)
def test_a_run_over_what_people_hold(kind, tmp_path):
    done = whence.run(HELD[kind](), model="sentiment", out=tmp_path / "run", text="review", progress=False)
    assert (done.rows, done.failed) == (3, 1)  # one has no text


@pytest.mark.parametrize("make", [pa.array, lambda texts: pa.chunked_array([texts]), iter])
def test_texts_alone(make):
    texts = ["a gem", "so dull"]
    assert [record["text"] for record in open_dataset(make(texts)).records()] == texts
    assert [exp.text for exp in whence.explain("sentiment", make(texts))] == texts


def test_a_column_of_rows_must_be_there():
    with pytest.raises(InputError, match=r"no column 'text'; there are 'review', 'stars'"):
        whence.explain("sentiment", rows(), text="text")
    with pytest.raises(InputError, match="text='review'"):
        whence.explain("sentiment", pa.table(COLUMNS).to_reader())


def test_what_is_nearly_right_is_told_what_to_type():
    with pytest.raises(InputError, match=r"has to be called: rows\(\)"):
        open_dataset(rows)
    with pytest.raises(InputError, match=r"pandas\.DataFrame\(data\)"):
        open_dataset(COLUMNS)
