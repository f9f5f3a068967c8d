"""Files that are there whole or not at all."""

from __future__ import annotations

import pytest

from whence import files
from whence.errors import InputError


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_takes_the_place_of_another(tmp_path, durable):
    path = files.write(tmp_path / "a.txt", "one", durable=durable)
    files.write(path, "zwei – ☃", durable=durable)
    assert path.read_text(encoding="utf-8") == "zwei – ☃"
    assert files.write(tmp_path / "b", b"\x00\xff").read_bytes() == b"\x00\xff"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b"]


def test_an_error_leaves_what_was_there(tmp_path):
    path = files.write(tmp_path / "a.txt", "one")

    def fail() -> None:
        with files.replaced(path) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "one"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        files.write(tmp_path / "none" / "a.txt", "one")


def test_lines_are_added_whole(tmp_path):
    """Also after a line that a crash cut off."""
    path = tmp_path / "journal"
    files.append(path, "one\n")
    with path.open("a") as file:
        file.write('{"half": ')
    files.append(path, "two\nthree\n")
    assert path.read_text().splitlines() == ["one", '{"half": ', "two", "three"]


def test_publishing_is_a_rename(tmp_path):
    (tmp_path / "x.part").write_text("done")
    files.publish(tmp_path / "x.part", tmp_path / "x")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
