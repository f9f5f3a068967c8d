"""Documents from files and folders."""

from __future__ import annotations

import json

import pytest

from whence.data.text_files import read_documents
from whence.errors import InputError


def test_files_folders_and_lines_in_their_order(tmp_path):
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "b.md").write_text("two")
    (folder / "a.TXT").write_text("one")
    (folder / "c.pdf").write_bytes(b"%PDF")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        json.dumps({"title": "T", "text": "three"}) + "\n\n" + json.dumps({"text": "vier ä"}) + "\n", "utf-8"
    )
    assert read_documents([rows, folder]) == [
        {"title": "T", "text": "three"},
        {"title": "rows 3", "text": "vier ä"},
        {"title": "a", "text": "one"},
        {"title": "b", "text": "two"},
    ]


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "a.txt").write_text("one", encoding="utf-8-sig")
    assert read_documents([tmp_path / "a.txt"])[0]["text"] == "one"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b" \n", "there is no text in"),
        ("a.txt", b"\xff\xfe\x00", "is not UTF-8 text"),
        ("a.docx", b"PK", "use .txt, .md or .jsonl"),
        ("a.jsonl", b"{", "line 1 of .* is no JSON"),
        ("a.jsonl", b'{"text": "x"}\n{"title": "y"}', 'line 2 of .* has no "text"'),
        ("a.jsonl", b"[1]", 'line 1 of .* has no "text"'),
        ("a.jsonl", b"\n", "there are no documents"),
    ],
)
def test_what_can_not_be_read_is_said(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_documents([tmp_path / name])


def test_an_empty_folder_and_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"holds no \.txt or \.md file"):
        read_documents([tmp_path])
    with pytest.raises(InputError, match="no such file or folder"):
        read_documents([tmp_path / "x.txt"])
