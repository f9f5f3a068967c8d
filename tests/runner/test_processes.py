"""Processes of a run: what kills them, what they outlive, and what they load."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

import whence
from tests.runner.conftest import in_a_process, records, sentences, wait_until
from tests.runner.killers import DeadlyMethod, deadly_encoder
from whence.data.rows import Row
from whence.errors import ModelError
from whence.runner import attempts
from whence.runner.attempts import Attempt, notes
from whence.runner.encoding import Beside, DiedError, _Side, ahead, child, receive, send
from whence.runner.plan import Shard

SMALL = {"rows_per_shard": 16, "batch_tokens": 64}
BIN = [sys.executable, "-P", "-c", "from whence.cli import main; main()"]
"""The command as it is installed: its own folder, not the current one, is where it looks for modules."""


@pytest.fixture
def deadly() -> list[str]:
    texts = sentences(48)
    texts[20] = "a killer of a film"
    return texts


def check_blamed(out: Path) -> None:
    found = records(out)
    assert [r["row"] for r in found] == list(range(48))
    assert [r["row"] for r in found if r["error"] and "process died" in r["error"]] == [20]
    assert found[20]["text"] == "a killer of a film"
    assert not notes(out)


def test_a_row_that_kills_its_process_fails_by_itself_once_the_command_is_typed_again(deadly, tmp_path):
    out = tmp_path / "out"

    def work():
        whence.run(deadly, model="sentiment", method=DeadlyMethod(), out=out, **SMALL)

    for _ in range(2):  # the second one knows that the first died, and where it dies itself
        assert os.WTERMSIG(in_a_process(work)) == signal.SIGKILL
        assert notes(out)
    work()
    check_blamed(out)


def test_rows_of_processes_are_counted_batch_by_batch_and_those_that_are_lost_are_taken_back(deadly, tmp_path):
    told, out = [], tmp_path / "out"
    done = whence.run(
        deadly,
        model="sentiment",
        method=DeadlyMethod(),
        out=out,
        workers=2,
        progress=lambda *now: told.append(now),
        **SMALL,
    )
    check_blamed(out)
    counts = [count for count, _, _ in told]
    steps = [b - a for a, b in zip([0, *counts], counts, strict=False)]
    assert counts[-1] == done.fresh == 48
    assert max(steps) < 16
    assert min(steps) < 0  # the rows before the one that kills, in its shard


def test_a_row_that_kills_the_encoder_fails_by_itself():
    texts = ["a gem", "so dull", "killer", "fine"]
    beside = Beside(lambda rows: ["here"] * len(rows), pickle.dumps(deadly_encoder), 1)
    try:
        assert beside.ready.wait(120)
        found = beside([Row(n, str(n), text) for n, text in enumerate(texts)])
    finally:
        beside.close()
    assert [found[n] for n in (0, 1, 3)] == ["A GEM", "SO DULL", "FINE"]
    assert "its process died each of 2 times the row was encoded" in found[2]


def test_an_encoder_that_is_killed_at_start_is_done_without(monkeypatch):
    died, up = threading.Event(), _Side.is_up

    def killed(side):
        side.process.kill()
        found = up(side)
        died.set()
        return found

    monkeypatch.setattr(_Side, "is_up", killed)
    beside = Beside(lambda rows: ["here"] * len(rows), pickle.dumps(deadly_encoder), 2)
    try:
        assert died.wait(60)
        assert beside([Row(0, "0", "a gem")]) == ["here"]
    finally:
        beside.close()


def test_writing_to_a_dead_process_says_so():
    """Typer takes a broken pipe for one of its own output, and exits without a word."""
    with child("whence.runner.encoding", threads=1) as process:
        process.kill()
        process.wait()
        with pytest.raises(DiedError, match="a worker process ended unexpectedly"):
            send(process.stdin, b"x" * 10**6)
        with pytest.raises(DiedError):
            receive(process.stdout)


def test_workers_that_never_start_are_an_error(deadly, tmp_path, monkeypatch):
    monkeypatch.setattr("whence.runner.local.child", lambda _, threads: child("tests.runner.nowhere", threads=threads))
    with pytest.raises(ModelError, match="died 3 times before it had loaded the model"):
        whence.run(deadly, model="sentiment", method="gi", out=tmp_path / "out", workers=2, **SMALL)


def test_a_shard_that_kills_without_a_row_to_blame_is_given_up(tmp_path):
    shard = Shard(0, [Row(n, str(n), "a gem") for n in range(4)])
    for _ in range(attempts.TRIES + 1):
        Attempt.begin(tmp_path, shard, "this run").note(0)  # and death
    with pytest.raises(ModelError, match="on rows 0 to 3, and on no single one of them"):
        Attempt.begin(tmp_path, shard, "this run")
    assert not notes(tmp_path)


def test_a_note_is_there_whole_whenever_its_writer_dies(tmp_path, monkeypatch):
    shard = Shard(0, [Row(0, "0", "a gem")])
    attempt = Attempt.begin(tmp_path, shard, "this run")
    attempt.note(0, 0)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", Mock(side_effect=OSError("cut off")))
        with pytest.raises(OSError, match="cut off"):
            attempt.note(0, 1)
    assert Attempt.begin(tmp_path, shard, "this run").died == {0: 1}


def _children(pid: int) -> set[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
    direct = {int(p) for p in found}
    return direct.union(*(_children(p) for p in direct))


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_its_parent(number, tmp_path):
    data, out, said = tmp_path / "d.txt", tmp_path / "out", tmp_path / "said"
    data.write_text("\n".join(sentences(4000)) + "\n")
    sizes = ["--rows-per-shard", "16", "--batch-tokens", "64", "--workers", "2", "--quiet"]
    with said.open("w") as errors:
        process = subprocess.Popen([*BIN, "run", str(data), "--out", str(out), *sizes], stderr=errors)
        try:
            wait_until(lambda: list(out.glob("shard-*")) or process.poll() is not None)
            started = _children(process.pid)
            process.send_signal(number)
            process.wait(60)
        finally:
            process.kill()
            process.wait()
    assert len(started) >= 2
    wait_until(lambda: all(map(_is_gone, started)))
    if number == signal.SIGTERM:
        assert process.returncode == 143
        assert "rows are safe in" in said.read_text()
        assert not notes(out)


def test_a_file_beside_the_data_is_not_run(tmp_path, monkeypatch):
    """`inspect` is a module of Python's own, which many others import."""
    (tmp_path / "inspect.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    with child("whence.runner.encoding", threads=1) as process:
        send(process.stdin, pickle.dumps(deadly_encoder))
        assert receive(process.stdout)
    assert not (tmp_path / "ran").exists()


def test_the_current_folder_comes_last(tmp_path, monkeypatch):
    from whence.runner import encoding

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/one", str(tmp_path), "/two"])
    assert encoding._path() == ["/one", "/two", str(tmp_path)]


def test_nothing_is_encoded_once_nobody_wants_it():
    """Left to itself, the thread would be somewhere in torch while Python ends, which aborts."""
    made = []

    def items():
        for n in range(1000):
            made.append(n)
            yield n

    rows = ahead(items())
    assert next(rows) == 0
    rows.close()
    count = len(made)
    assert not [thread for thread in threading.enumerate() if thread.name == "whence-ahead"]
    assert count < 10
    assert len(made) == count
