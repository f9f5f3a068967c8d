"""What changed is noticed and named: shards, journal, manifest, data, weights."""

from __future__ import annotations

import json
import os
import random

import pytest
import torch
from typer.testing import CliRunner

import whence
from tests.runner.conftest import files, records, sentences
from whence.cli import app
from whence.data import contents
from whence.errors import InputError, WhenceError
from whence.runner import launch
from whence.runner.manifest import Journal, Manifest
from whence.runner.show import tables

SMALL = {"rows_per_shard": 16, "batch_tokens": 64}


@pytest.fixture
def finished(sentiment, reviews, tmp_path):
    out = tmp_path / "out"
    whence.run(reviews, model=sentiment, text="review", out=out, **SMALL)
    return out


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def noticed(out) -> bool:
    try:
        return not whence.verify(out).ok
    except InputError as error:
        return "_manifest.json' is damaged" in str(error) or "this version of whence reads" in str(error)


@pytest.mark.parametrize("name", ["shard-000001.parquet", "_journal.jsonl", "_manifest.json"])
def test_any_bit_that_flips_is_noticed(name, finished):
    path, chance = finished / name, random.Random(3)
    whole = path.read_bytes()
    meant = json.loads(whole) if name == "_manifest.json" else None
    for _ in range(60):
        path.write_bytes(flipped(whole, chance.randrange(8 * len(whole))))
        same = meant is not None and _means(path.read_bytes()) == meant  # a space for a tab
        same = same or (name == "_journal.jsonl" and _lines(path.read_bytes()) == _lines(whole))
        assert noticed(finished) or same
    path.write_bytes(whole)
    assert whence.verify(finished).ok


@pytest.mark.parametrize("read", [whence.verify, whence.summary, lambda out: whence.show(out, 0)])
def test_a_run_of_another_format_says_what_can_be_done_with_it(read, tmp_path):
    (tmp_path / "_manifest.json").write_text('{"format": 1}')
    with pytest.raises(InputError, match=r"of format 1, .* reads format 2\..* shards can be read .* whence run has to"):
        read(tmp_path)


def _means(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def _lines(text):
    return [_means(line) for line in text.split(b"\n") if line]


def test_the_command_names_the_shard_and_exits_with_1(finished, sentiment, reviews, capsys):
    invoke, path = CliRunner().invoke, finished / "shard-000002.parquet"
    fine = invoke(app, ["verify", str(finished)])
    assert (fine.exit_code, fine.stdout.split(" under")[0]) == (0, "4 shards with 60 rows")
    before = files(finished)
    path.write_bytes(flipped(path.read_bytes(), 4000))
    found = invoke(app, ["verify", str(finished)])
    assert found.exit_code == 1
    assert "shard-000002.parquet holds other bytes than were written" in found.stdout
    assert "shard-000001" not in found.stdout
    for read in (lambda: whence.show(finished, 33), lambda: whence.summary(finished)):
        with pytest.raises(WhenceError, match=r"shard-000002\.parquet .* holds other bytes"):
            read()
    assert whence.run(reviews, model=sentiment, text="review", out=finished).fresh == 16
    assert "shard-000002.parquet holds other bytes" in capsys.readouterr().err
    assert files(finished) == before


def test_a_missing_shard_and_one_too_many(finished):
    (finished / "shard-000000.parquet").rename(finished / "shard-000009.parquet")
    assert whence.verify(finished).damaged == {
        "shard-000000.parquet": "is not there",
        "shard-000009.parquet": "is not in the journal",
    }


def test_a_run_that_lacks_rows_is_not_summed_up(finished):
    """Another run would be: the one without them."""
    (finished / "shard-000001.parquet").rename(finished / "elsewhere")
    for read in (lambda: whence.summary(finished), lambda: whence.show(finished, 17), lambda: list(tables(finished))):
        with pytest.raises(WhenceError, match=r"shard-000001\.parquet of .* is not there\. Type  whence verify"):
            read()
    assert whence.show(finished, 2).stamp["row"] == 2
    (finished / "elsewhere").rename(finished / "shard-000001.parquet")
    (finished / "_journal.jsonl").unlink()
    with pytest.raises(WhenceError, match=r"_journal\.jsonl of .* has 0 of 60 rows\. Type  whence verify"):
        whence.summary(finished)


def test_a_shard_that_is_of_no_run_here_is_named(finished, sentiment, reviews, capsys):
    name = "shard-\x1b[2J.parquet"
    (finished / name).write_bytes(b"")
    said = CliRunner().invoke(app, ["verify", str(finished)])
    assert said.exit_code == 1
    assert "shard-\ufffd[2J.parquet is of no run here" in said.stdout
    assert "take away what is of no run here" in said.stdout
    assert "\x1b" not in said.stdout
    whence.run(reviews, model=sentiment, text="review", out=finished)
    assert "shard-\ufffd[2J.parquet is of no run here: take it away" in capsys.readouterr().err


def test_shards_of_this_run_are_not_to_be_taken_away_when_the_journal_is_damaged(finished, sentiment, reviews, capsys):
    before, journal = files(finished), finished / "_journal.jsonl"
    first = journal.read_bytes().split(b"\n")[0]
    for left in (first + b"\n", None):
        journal.unlink() if left is None else journal.write_bytes(left)
        found = whence.verify(finished)
        assert found.damaged["shard-000003.parquet"] == "is not in the journal"
        assert "the same whence run again explains the other rows" in str(found)
        assert "take" not in str(found)
        whence.run(reviews, model=sentiment, text="review", out=finished)
        assert "take it away" not in capsys.readouterr().err
        assert whence.verify(finished).ok
        assert files(finished) == before


@pytest.fixture
def begun(sentiment, reviews, tmp_path):
    """A run that stopped after two of its four shards."""
    out = tmp_path / "begun"

    def stop(done, total, rate):
        if done > 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whence.run(reviews, model=sentiment, text="review", out=out, progress=stop, **SMALL)
    assert Journal(out).rows == 32
    return out


def test_books_of_a_run_that_is_not_complete(begun, sentiment, reviews, capsys):
    assert whence.verify(begun).ok
    journal = begun / "_journal.jsonl"
    first, second, end = journal.read_bytes().split(b"\n")
    assert not end
    journal.write_bytes(b"\n".join([first, second.replace(b'"failed": 0', b'"failed": 9'), b""]))
    changed = whence.verify(begun)
    assert changed.damaged == {"_journal.jsonl": "has lines that are not as they were written (2)"}
    assert changed.unlisted == 1
    assert whence.run(reviews, model=sentiment, text="review", out=begun).complete
    assert "_journal.jsonl has lines that are not as they were written" in capsys.readouterr().err
    assert whence.verify(begun).ok


def test_a_line_is_cut_off_or_changed(begun):
    journal = begun / "_journal.jsonl"
    whole = journal.read_bytes()
    start = whole.index(b"\n") + 1
    for at in range(start + 1, len(whole)):
        journal.write_bytes(whole[:at])
        assert whence.verify(begun).ok, whole[:at]
    for at in range(start, len(whole) - 1):
        journal.write_bytes(flipped(whole, 8 * at))
        assert not whence.verify(begun).ok, whole[at:]


def test_a_line_that_a_crash_cut_off_is_no_damage(begun, sentiment, reviews):
    journal = begun / "_journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-40])
    found = whence.verify(begun)
    assert (found.ok, found.shards, found.unlisted) == (True, 1, 1)
    assert "1 more are not in the journal, as after a crash" in str(found)
    assert whence.run(reviews, model=sentiment, text="review", out=begun).fresh == 44
    assert whence.verify(begun).ok  # the cut line stands before those that came after it
    assert whence.summary(begun).rows == 60


def test_a_manifest_that_was_cut_is_said_to_be(finished, sentiment, reviews):
    path = finished / "_manifest.json"
    path.write_bytes(path.read_bytes()[:200])
    for read in (
        whence.verify,
        whence.summary,
        lambda out: whence.run(reviews, model=sentiment, text="review", out=out),
    ):
        with pytest.raises(InputError, match=r"_manifest\.json' is damaged"):
            read(finished)


def test_a_run_that_began_and_ended_in_between_is_gone_on_with(sentiment, reviews, tmp_path, monkeypatch):
    """The folder is looked at, another run writes all of it with another plan, and only then comes the lock."""
    out, plan = tmp_path / "out", launch.suggested

    def meanwhile(*args, **options):
        monkeypatch.setattr(launch, "suggested", plan)
        whence.run(reviews, model=sentiment, text="review", out=out, **SMALL)
        return plan(*args, **{**options, "rows_per_shard": 24})

    monkeypatch.setattr(launch, "suggested", meanwhile)
    done = whence.run(reviews, model=sentiment, text="review", out=out, batch_tokens=64)
    assert (done.rows, done.fresh, done.complete) == (60, 0, True)
    assert [r["row"] for r in records(out)] == list(range(60))
    assert Manifest.read(out).plan.rows_per_shard == 16
    assert whence.verify(out).ok


def test_rows_that_are_fewer_than_the_plan_s_total_are_an_error(sentiment, tmp_path):
    class Short(list):
        def __iter__(self):
            return iter(list.__getitem__(self, slice(30)))

    with pytest.raises(WhenceError, match="the data has 40 rows, 30 were read and 30 are in"):
        whence.run(Short(sentences(40)), model=sentiment, out=tmp_path / "out", **SMALL)
    assert not Manifest.read(tmp_path / "out").complete


def middle_changed(path, *, text: bytes) -> None:
    """Other bytes in the middle; size and times stay."""
    stat, whole = path.stat(), path.read_bytes()
    at = whole.index(text)
    path.write_bytes(whole[:at] + text.swapcase() + whole[at + len(text) :])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.fixture
def wide(tmp_path, monkeypatch):
    """Rows in blocks of 1 KB: the middle is far from both ends."""
    monkeypatch.setattr(contents, "BLOCK", 1024)
    path = tmp_path / "wide.txt"
    path.write_text("".join(f"a gem of a film number {n:04d}\n" for n in range(100)))
    return path


def test_data_that_changes_while_it_is_read_is_an_error_with_the_place(sentiment, wide, tmp_path):
    def change(done, total, rate):
        if done == 16:
            middle_changed(wide, text=b"film number 0050")

    with pytest.raises(WhenceError, match=r"(?s)changed while the run was going.*wide\.txt byte 1024"):
        whence.run(wide, model=sentiment, out=tmp_path / "out", progress=change, **SMALL)
    assert not Manifest.read(tmp_path / "out").complete


def test_data_that_changed_before_the_run_goes_on_is_refused_with_the_place(sentiment, wide, tmp_path):
    whence.run(wide, model=sentiment, out=tmp_path / "out", **SMALL)
    middle_changed(wide, text=b"film number 0050")
    with pytest.raises(InputError, match=r"data\.blocks\.0 wide\.txt byte 1024"):
        whence.run(wide, model=sentiment, out=tmp_path / "out")


def test_one_weight_that_changes_is_noticed_and_named(reviews, tmp_path):
    model = whence.load("sentiment")
    name, weights = max(model.module.state_dict().items(), key=lambda item: item[1].numel())

    def change(done, total, rate):
        with torch.no_grad():
            weights.view(-1)[weights.numel() // 2 + 1] += 1e-3

    with pytest.raises(WhenceError, match=rf"weights\.{name}"):
        whence.run(reviews, model=model, text="review", limit=16, out=tmp_path / "out", progress=change, **SMALL)


def test_the_same_file_by_another_path(sentiment, reviews, tmp_path, monkeypatch):
    whence.run(reviews, model=sentiment, text="review", out=tmp_path / "out", **SMALL)
    monkeypatch.chdir(tmp_path)
    for name in ("reviews.jsonl", "./reviews.jsonl"):
        assert whence.run(name, model=sentiment, text="review", out=tmp_path / "out").fresh == 0
