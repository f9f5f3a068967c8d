"""Files as they should not be: nothing is dropped without a word."""

from __future__ import annotations

import gzip
import io
import json
import sys
from types import SimpleNamespace

import pytest

from whence.data import open_dataset
from whence.data.rows import Columns, rows
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
    path.write_text('text\na gem\n"so dull"\n"a ""fine"" one"')
    assert [row.content for row in read(path)] == ["a gem", "so dull", 'a "fine" one']


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
