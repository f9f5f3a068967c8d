"""Files as they should not be: nothing is dropped without a word."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from whence.data import labelled, open_dataset
from whence.data.rows import DEEPEST, Columns, rows
from whence.errors import InputError, MissingExtraError


def read(data, **columns):
    return list(rows(open_dataset(data), Columns(**columns)))


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.txt"])
def test_a_byte_order_mark_is_no_text(name, tmp_path):
    table = {"x.csv": "text\na gem\n", "x.tsv": "text\tlabel\na gem\t1\n"}
    content = {**table, "x.jsonl": '{"text": "a gem"}', "x.txt": "a gem"}
    (tmp_path / name).write_text(content[name], encoding="utf-8-sig")
    assert [row.content for row in read(tmp_path / name)] == ["a gem"]
    (tmp_path / name).write_text(content[name], encoding="utf-16")
    with pytest.raises(InputError, match="is UTF-16"):
        read(tmp_path / name)


def test_a_quote_that_is_never_closed_is_an_error_with_its_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('text\na gem\n"two\nlines"\n"so dull\n' + "fine\n" * 11)
    with pytest.raises(InputError, match=r"line 5 of x\.csv opens a quote .* the 11 lines after it"):
        read(path)
    path.write_text('text\na gem\n"so dull"\n"a ""fine"" one"\na "fine" one')
    assert [row.content for row in read(path)] == ["a gem", "so dull", 'a "fine" one', 'a "fine" one']


@pytest.mark.parametrize(
    ("lines", "said"),
    [(['1,"row one"', '2,"row two', '3,"row three"', '4,"row four"'], r"line 4 of x\.csv .*; it began in line 3"),
     (['1,"row one"', '2,"she said "so" there"', '3,"row three"'], r"line 3 of x\.csv .*: close a quote"),
     (['1,"she said \\"so\\" there"'], r'has no \\ before it'),
     (['"1";"row one"', '"2";"row two"'], "cells are separated by commas")],
)  # fmt: skip
def test_a_quote_that_pairs_up_with_that_of_another_row_is_an_error(lines, said, tmp_path):
    """Rows would be swallowed by the one before them, and the number of quotes is even."""
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["id,text", *lines]) + "\n")
    with pytest.raises(InputError, match=said):
        read(path)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.txt"])
def test_a_row_that_is_no_utf8_is_a_broken_row(name, tmp_path):
    head, row = {"x.csv": ("text\n", "%s\n"), "x.tsv": ("text\tlabel\n", "%s\t1\n"), "x.txt": ("", "%s\n"),
                 "x.jsonl": ("", '{"text": "%s"}\n')}[name]  # fmt: skip
    made = head + "".join(row % text for text in ("a gem", "a café", "naïve"))
    (tmp_path / name).write_bytes(made.encode("latin-1").replace("naïve".encode("latin-1"), "naïve".encode()))
    gem, broken, fine = read(tmp_path / name)
    assert (gem.content, broken.content, fine.content) == ("a gem", None, "naïve")
    assert f"of {name} holds byte 0xe9, which is no UTF-8: write it as UTF-8, such as with  iconv" in broken.error


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.parquet"])
def test_two_columns_of_one_name(name, tmp_path):
    path = tmp_path / name
    if name == "x.parquet":
        both = [pa.array(["a gem"]), pa.array(["so dull"])]
        pq.write_table(pa.table(both, names=["text", "text"]), path)
    else:
        path.write_text("text,text,more,more\na gem,so dull,,\n".replace(",", "\t" if name == "x.tsv" else ","))
    for reader in (lambda: list(open_dataset(path, wanted=["text"]).records()), lambda: labelled.read(path)):
        with pytest.raises(InputError, match=f"{name} has 2 columns 'text': name them apart"):
            reader()
    if name != "x.parquet":  # nobody asks for these
        path.write_text(path.read_text().replace("text", "title", 1))
        assert [row.content for row in rows(open_dataset(path, wanted=["text"]), Columns())] == ["so dull"]


def test_columns_of_one_name_that_nobody_reads(tmp_path):
    """What a join leaves."""
    (tmp_path / "x.csv").write_text("id,text,label,id\n1,a gem,1,2\n")
    (row,) = labelled.read(tmp_path / "x.csv")
    assert (row.input, row.label) == ("a gem", "1")


def test_columns_of_a_table_whose_first_row_is_broken(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"text,label\ncaf\xe9,1\na gem,0\n")
    assert open_dataset(tmp_path / "x.csv").columns() == ["text", "label"]


def test_a_parquet_file_without_the_column_says_what_it_has(tmp_path):
    (tmp_path / "d").mkdir()
    for name, column in (("a", "text"), ("b", "title")):
        pq.write_table(pa.table({column: ["a gem"]}), tmp_path / "d" / f"{name}.parquet")
    _, second = rows(open_dataset(tmp_path / "d").only(["text"]), Columns())
    assert second.error == "the row has no 'text'; it has title"


def test_values_that_python_has_none_for(tmp_path):
    """Of columns that are asked for, the rows are broken; others are not read."""
    path, letters = tmp_path / "x.parquet", pa.array([0, 3, 6, 9], pa.int32()).buffers()[1]
    half = pa.Array.from_buffers(pa.string(), 3, [None, letters, pa.py_buffer(b"abc\xff\xfe\xfddef")])
    late = pa.array([0, 1, 9 * 10**17], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"text": half, "when": late, "title": ["a gem", "so dull", "fine"]}), path)
    with pytest.raises(InputError, match="can't be read"):
        open_dataset(_cut(path, tmp_path / "cut.parquet"))
    data = open_dataset(path)
    titles = list(rows(data.only(["title"]), Columns("title")))
    assert [row.content for row in titles] == ["a gem", "so dull", "fine"]
    first, second, third = rows(data.only(["text"]), Columns())
    assert (first.content, third.content) == ("abc", "def")
    assert "row 1 of x.parquet can't be read: 'utf-8' codec" in second.error
    *_, last = rows(data, Columns("title"))
    assert "row 2 of x.parquet can't be read" in last.error


def _cut(path, to):
    to.write_bytes(path.read_bytes()[:-50])
    return to


def test_columns_that_the_first_row_lacks(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": 1}\n{"id": 2, "text": "a gem"}\n')
    data = open_dataset(tmp_path / "x.jsonl")
    assert data.columns() == ["id", "text"]
    first, second = rows(data, Columns())
    assert (first.error, second.content) == ("the row has no 'text'; it has id", "a gem")
    assert open_dataset([{"id": 1}, {"text": "a gem"}]).columns() == ["id", "text"]


@pytest.mark.parametrize("where", ["id", "text", "label"])
def test_a_row_that_is_nested_too_deeply(where, tmp_path):
    deep = {"id": "a", "text": "a gem", "label": 1}
    (tmp_path / "x.jsonl").write_text(
        "\n".join(json.dumps({**deep, where: json.loads("[" * depth + "1" + "]" * depth)}) for depth in (DEEPEST, 700))
    )
    fine, broken = read(tmp_path / "x.jsonl", id="id", target="label")
    assert fine.error is None
    assert (broken.id, broken.content, broken.target) == ("1", None, None)
    assert broken.error == f"the value of {where!r} is nested more than {DEEPEST} deep"


def test_what_a_run_wrote_below_a_folder_is_no_data(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "a gem"}\n')
    (tmp_path / "explained").mkdir()
    (tmp_path / "explained" / "_manifest.json").write_text("{}")
    (tmp_path / "explained" / "y.jsonl").write_text('{"text": "so dull"}\n')
    assert [row.content for row in read(tmp_path)] == ["so dull", "a gem"]  # a manifest of somebody else's
    (tmp_path / "explained" / "_journal.jsonl").write_text("")
    assert [row.content for row in read(tmp_path)] == ["a gem"]


def test_names_that_are_no_text(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl"))
    try:
        path.write_text('{"text": "a gem"}\n')
    except (OSError, UnicodeError):
        pytest.skip("this file system takes no such names")
    data = open_dataset(path)
    assert data.count() == 1
    assert data.fingerprint()["files"] == 1


def test_no_name_at_all_and_no_standard_input(monkeypatch):
    with pytest.raises(InputError, match="the name of the data is empty"):
        open_dataset("")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="there is no standard input"):
        read("-")


def test_a_row_with_more_cells_than_columns_is_a_broken_row(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("text,label\na gem,1\nwell, well,0\nfine,1,\nshort\n")
    found = read(path)
    assert [row.content for row in found] == ["a gem", None, "fine", "short"]
    assert "line 3 of x.csv has 3 cells for 2 columns" in found[1].error


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_blank_lines_are_passed_over(name, tmp_path):
    comma = "," if name == "x.csv" else "\t"
    lines = ["", "", f"text{comma}label", f"a gem{comma}1", "", f"so dull{comma}0", ""]
    (tmp_path / name).write_text("\n".join(lines))
    assert [row.content for row in read(tmp_path / name)] == ["a gem", "so dull"]


def test_an_archive_that_was_cut_to_nothing(tmp_path):
    (tmp_path / "x.txt.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.txt\.gz' can't be read: it is empty"):
        read(tmp_path / "x.txt.gz")


@pytest.mark.parametrize("kept", [0.05, 0.5, 0.99])
def test_a_cut_archive_is_said_to_be(kept, tmp_path):
    whole = gzip.compress("".join(f"a film number {n}\n" for n in range(3000)).encode())
    (tmp_path / "x.txt.gz").write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(InputError, match=r"x\.txt\.gz' can't be read: Compressed file ended"):
        read(tmp_path / "x.txt.gz")
    (tmp_path / "x.txt.gz").write_bytes(whole[:100] + bytes(200) + whole[300:])
    with pytest.raises(InputError, match=r"x\.txt\.gz' can't be read"):
        read(tmp_path / "x.txt.gz")


def test_bad_rows_are_rows_with_their_errors(tmp_path):
    path = tmp_path / "x.jsonl"
    deep = "[" * 100_000 + "]" * 100_000
    lines = ['{"id": "a", "text": "fine"}', '{"id": "b", "text": "half \\ud83d"}', f'{{"id": "c", "text": {deep}}}',
             '{"id": "d\\ud800", "text": "fine"}']  # fmt: skip
    path.write_text("\n".join(lines))
    found = read(path, id="id")
    assert [row.error is None for row in found] == [True, False, False, True]
    assert "character 5 of the text is half of one (a lone surrogate)" in found[1].error
    assert (found[1].id, found[1].shown) == ("b", "half \\ud83d")
    assert "line 3 of x.jsonl is not JSON: maximum recursion depth" in found[2].error
    assert found[3].id == "d\\ud800"


@pytest.mark.parametrize("content", ['{"text": "a gem"}\n\n{"text": "so dull"}\n', "a gem\nso dull\n"])
def test_standard_input(content, monkeypatch):
    given(monkeypatch, content.encode("utf-8-sig"))
    assert [row.content for row in read("-")] == ["a gem", "so dull"]


def given(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_blank_lines_at_the_start_of_standard_input(monkeypatch):
    given(monkeypatch, b' \r\n\n{"text": "a gem"}\n{')
    gem, broken = read("-")
    assert gem.content == "a gem"
    assert "line 4 of standard input is not JSON" in broken.error
    given(monkeypatch, b"\na gem\r{so dull}")
    assert [row.content for row in read("-")] == ["", "a gem", "{so dull}"]
    given(monkeypatch, b"")
    assert read("-") == []


@pytest.mark.parametrize(
    ("content", "said"),
    [("a gem".encode("utf-16"), "is UTF-16"),
     (gzip.compress(b"a gem", mtime=0), "is a gzip file, .* pass the file's name"),
     (b"PAR1\x15\x04\x15", "is a Parquet file")],
)  # fmt: skip
def test_what_is_no_text_on_standard_input(content, said, monkeypatch):
    given(monkeypatch, content)
    with pytest.raises(InputError, match=f"standard input {said}"):
        read("-")


def test_a_missing_package_is_named_as_it_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"no file 'revews' here.* pip install datasets$"):
        open_dataset("revews")


def test_json_values_that_are_no_objects(tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps("a gem") + "\n3\nnull\n")
    assert [row.content for row in read(tmp_path / "x.jsonl")] == ["a gem", 3, None]
