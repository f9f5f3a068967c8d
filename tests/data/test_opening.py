"""Every kind of input gives the same rows, from any row on, and says what is wrong with it."""

from __future__ import annotations

import gzip
import sys
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from whence.data import open_dataset
from whence.data.labelled import labelled
from whence.data.rows import Columns, rows
from whence.errors import InputError, MissingExtraError

TEXTS = ["a gem", "so, dull", 'he said "no"', "", "ünïcode ☃"]


def read(data, start=0, limit=None, **columns):
    return [row.content for row in rows(open_dataset(data), Columns(**columns), start, limit)]


def _written(kind, folder):
    path = folder / f"data.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"text": TEXTS}), path, row_group_size=2)
    elif kind == "jsonl":
        import json

        path.write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS))
    elif kind == "csv":
        import csv

        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["text"], *([t] for t in TEXTS)])
    elif kind == "tsv":
        path.write_text("text\tlabel\n" + "".join(f"{t}\t1\n" for t in TEXTS))
    elif kind == "txt":
        path.write_text("".join(t + "\n" for t in TEXTS))
    elif kind == "txt.gz":
        path.write_bytes(gzip.compress("".join(t + "\n" for t in TEXTS).encode()))
    return path


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "tsv", "txt", "txt.gz"])
@pytest.mark.parametrize("start", [0, 1, 3, 5])
def test_files_from_any_row_on(kind, start, tmp_path):
    path = _written(kind, tmp_path)
    assert read(path, start) == TEXTS[start:]
    assert open_dataset(path).count() == len(TEXTS)


def test_csv_quotes(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('text,n\n"a ""gem"", really\nover two lines",1\nb,2\n')
    assert read(path) == ['a "gem", really\nover two lines', "b"]


def test_folder_pattern_and_several_files(tmp_path):
    for n in range(3):
        pq.write_table(pa.table({"text": [f"{n} a", f"{n} b"]}), tmp_path / f"{n}.parquet")
    for data in (tmp_path, f"{tmp_path}/*.parquet"):
        assert read(data, 3) == ["1 b", "2 a", "2 b"]
        assert open_dataset(data).count() == 6


def test_iterables_and_what_was_looked_at_comes_again():
    source = open_dataset(iter(TEXTS))
    assert [r["text"] for r in source.sample(2)] == TEXTS[:2]
    assert [r["text"] for r in source.records()] == TEXTS
    with pytest.raises(InputError, match="read already"):
        source.records()
    assert read([{"q": "who", "c": "me"}], text="q", pair="c") == [("who", "me")]


def test_ids_targets_and_limit(tmp_path):
    data = [{"text": t, "key": f"k{n}", "label": n} for n, t in enumerate(TEXTS)]
    found = list(rows(open_dataset(data), Columns(id="key", target="label"), 1, limit=3))
    assert [(r.number, r.id, r.target) for r in found] == [(1, "k1", 1), (2, "k2", 2)]


def test_a_broken_line_is_a_broken_row(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a"}\n{"text": \n{"other": 1}\n')
    good, broken, other = rows(open_dataset(path), Columns())
    assert good.error is None
    assert "line 2 of x.jsonl is not JSON" in broken.error
    assert "no 'text'" in other.error


def test_images_in_the_order_of_their_names(tmp_path):
    for name in ("b/2.png", "a/1.png", "a/notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    source = open_dataset(tmp_path)
    assert [r["label"] for r in source.records()] == ["a", "b"]


def test_fingerprints_tell_data_apart(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("one\n")
    before = open_dataset(path).fingerprint()
    path.write_text("two\n")
    assert open_dataset(path).fingerprint() != before


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere.parquet", "no such file"),
        ("./nowhere", "no such file"),
        ("data.xlsx", "can't read"),
        ("*.parquet", "no file matches"),
        (".", "neither data files"),
    ],
)
def test_errors_say_what_is_read(name, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.xlsx").write_text("x")
    with pytest.raises(InputError, match=says):
        open_dataset(name)


def test_hub_data_sets(monkeypatch):
    stream = SimpleNamespace(column_names=["sentence"], info=None)
    made = type("Stream", (), {"__iter__": lambda s: iter([{"sentence": t} for t in TEXTS]), **vars(stream)})()
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=lambda *a, **k: made))
    assert read("someone/sst2", 3, text="sentence") == TEXTS[3:]
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match="datasets"):
        open_dataset("someone/sst2")


def test_what_spreadsheets_and_editors_write(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbftext,label\na gem,positive\n")
    (row,) = labelled(tmp_path / "a.csv")
    assert (row.input, row.label) == ("a gem", "positive")
    (tmp_path / "b.jsonl").write_text('{"text": "a\\tgem"}\n\n{"text": "so dull"}\n')
    assert [r.input for r in labelled(tmp_path / "b.jsonl")] == ["a\tgem", "so dull"]
