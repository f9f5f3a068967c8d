"""Nothing is lost: real processes are killed, interrupted and starved of disk, and the same call then gives the same
files to the byte."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

import whence
from tests.runner.conftest import files, in_a_process, records, sentences, wait_until
from whence.runner import shards
from whence.runner.manifest import Journal, Manifest
from whence.runner.shards import ShardWriter
from whence.runner.window import WindowExplainer

ROWS = 300
SMALL = {"rows_per_shard": 40, "batch_tokens": 128}
TEXTS = sentences(ROWS)


def explained(model, out, **options):
    return whence.run(TEXTS, model=model, out=out, **SMALL, **options)


@pytest.fixture(scope="module")
def tiny(sentiment):
    """A model of one layer: what fails here is not the model."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=9000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=2
    )
    return whence.load((transformers.BertForSequenceClassification(config).eval(), sentiment.tokenizer))


def _files(model, factory) -> dict[str, bytes]:
    out = factory.mktemp("undisturbed") / "out"
    explained(model, out)
    return files(out)


@pytest.fixture(scope="module")
def undisturbed(tiny, tmp_path_factory) -> dict[str, bytes]:
    """What the small model gives when nothing happens."""
    return _files(tiny, tmp_path_factory)


@pytest.fixture(scope="module")
def bundled(sentiment, tmp_path_factory) -> dict[str, bytes]:
    """What the bundled model gives when nothing happens."""
    return _files(sentiment, tmp_path_factory)


def whole(out: Path, undisturbed: dict[str, bytes]) -> bool:
    """Same files; no row lost or twice."""
    assert [r["row"] for r in records(out)] == list(range(ROWS))
    assert not list(out.glob("*.part"))
    return files(out) == undisturbed


POINTS = [(os, "fsync"), (os, "replace"), (shards, "publish"), (ShardWriter, "write"), (Journal, "add"),
          (WindowExplainer, "window")]  # fmt: skip


def at_step(number: int, strike: Callable[[], object]) -> list[int]:
    """Strike before or after the `number`-th step of those in POINTS. Gives a list that counts steps in its length."""
    steps: list[int] = []

    def wrapped(function):
        def step(*args, **options):
            steps.append(1)
            if len(steps) == number:
                strike()
            result = function(*args, **options)
            steps.append(1)
            if len(steps) == number:
                strike()
            return result

        return step

    for owner, name in POINTS:
        setattr(owner, name, wrapped(getattr(owner, name)))
    return steps


def test_killed_again_and_again(sentiment, bundled, tmp_path):
    out, chance, kills = tmp_path / "out", random.Random(7), 0

    def work():
        at_step(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        explained(sentiment, out)

    while kills < 6:
        step = chance.randint(1, 24)
        status = in_a_process(work)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        kills += 1
    assert kills >= 4
    explained(sentiment, out)
    assert whole(out, bundled)


@pytest.mark.parametrize("step", range(1, 25, 4))
def test_killed_at_each_kind_of_step(step, tiny, undisturbed, tmp_path):
    out = tmp_path / "out"

    def work():
        at_step(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        explained(tiny, out, limit=80)

    assert os.WIFSIGNALED(in_a_process(work))
    explained(tiny, out, limit=80)
    assert files(out) == dict(list(undisturbed.items())[:2])


def test_the_command_killed_from_outside(bundled, tmp_path):
    data, out = tmp_path / "reviews.jsonl", tmp_path / "out"
    data.write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS))
    sizes = ["--rows-per-shard", "40", "--batch-tokens", "128"]
    command = [sys.executable, "-m", "whence", "run", str(data), "--out", str(out), "--quiet", *sizes]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: (out / "shard-000001.parquet").exists() or process.poll() is not None)
        process.kill()
    finally:
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert 2 <= len(files(out)) < 8
    done = whence.run(data, model="sentiment", out=out)
    assert done.fresh < ROWS
    assert whole(out, bundled)


def test_ctrl_c_says_how_to_go_on(tiny, undisturbed, tmp_path):
    out, said = tmp_path / "out", tmp_path / "said"

    def work():
        at_step(40, lambda: os.kill(os.getpid(), signal.SIGINT))
        explained(tiny, out)

    status = in_a_process(work, said)
    assert os.WEXITSTATUS(status) == 130
    assert "rows are safe in" in said.read_text()
    assert "type the same command again" in said.read_text()
    assert not list(out.glob("*.part"))
    assert Journal(out).rows > 0
    explained(tiny, out)
    assert whole(out, undisturbed)


@pytest.mark.parametrize("step", [1, 2, 3, 14, 30])
def test_a_full_disk_at_any_step(step, tiny, undisturbed, tmp_path):
    """A file layer that has no room from some step on."""
    out, said = tmp_path / "out", tmp_path / "said"

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def work():
        count = 0
        write, sync = ShardWriter.write, os.fsync

        def counted(function):
            def call(*args):
                nonlocal count
                count += 1
                return full() if count >= step else function(*args)

            return call

        ShardWriter.write, os.fsync = counted(write), counted(sync)
        explained(tiny, out)

    status = in_a_process(work, said)
    assert os.WEXITSTATUS(status) == 1
    assert "the disk is full" in said.read_text()
    assert not list(out.glob("*.part"))
    explained(tiny, out)
    assert whole(out, undisturbed)


def test_a_full_disk_when_all_is_done(tiny, undisturbed, tmp_path, monkeypatch):
    """There is no room left to say so."""
    out, wrote = tmp_path / "out", Manifest.write

    def full(manifest, where):
        if manifest.complete:
            raise OSError(errno.ENOSPC, "No space left on device")
        wrote(manifest, where)

    monkeypatch.setattr(Manifest, "write", full)
    with pytest.raises(whence.WhenceError, match="the disk is full"):
        explained(tiny, out)
    monkeypatch.undo()
    explained(tiny, out)
    assert whole(out, undisturbed)


def test_a_disk_that_is_really_full(tiny, undisturbed, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True)
    if not made or made.returncode:
        pytest.skip("this system does not let us mount a small disk; the test before this one has a full one in Python")
    try:
        with pytest.raises(whence.WhenceError, match="the disk is full"):
            explained(tiny, disk / "out")
        assert not list((disk / "out").glob("*.part"))
        subprocess.run([mount, "-o", "remount,size=8m", disk], check=True)
        explained(tiny, disk / "out")
        assert whole(disk / "out", undisturbed)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_crash_in_the_middle_of_a_shard(tiny, undisturbed, tmp_path):
    out = tmp_path / "out"

    def crash():
        raise MemoryError

    def work():
        at_step(33, crash)
        explained(tiny, out)

    assert os.WEXITSTATUS(in_a_process(work)) == 1
    explained(tiny, out)
    assert whole(out, undisturbed)
