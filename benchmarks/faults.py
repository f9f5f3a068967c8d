"""What goes wrong on purpose, and what is noticed: `python -m benchmarks.faults --write docs/reliability.md`.

Every fault is a real one: bits of files flip, processes are killed, two commands start at once. The figures of the page
stand between two marks and are replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import torch

import whence
from whence.data.labelled import opinions
from whence.errors import WhenceError

MARKS = "<!-- figures -->\n", "<!-- end of figures -->\n"
ROWS = 2000
SIZES = {"rows_per_shard": 64, "batch_tokens": 512}
ENTRY = "from whence.cli import main; main()"
OPTIONS = ["--method", "gi", "--quiet", "--rows-per-shard", "64", "--batch-tokens", "512"]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--flips", type=int, default=300)
    arguments.add_argument("--kills", type=int, default=10)
    arguments.add_argument("--starts", type=int, default=2, help="Pairs of commands that start at once.")
    arguments.add_argument("--luck", action="store_true", help="Only faults of the machine: clock and disk.")
    arguments.add_argument("--write", type=Path, help="The page whose figures are replaced.")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        data = written(work / "data.jsonl")
        whole = work / "whole"
        whence.run(data, model="sentiment", out=whole, method="gi", progress=False, **SIZES)
        lines = []
        lucky = bad_luck(work, data, whole) if given.luck else faults(work, data, whole, given)
        for line in lucky:
            print(line, flush=True)
            lines.append(line)
    if given.write:
        page = given.write.read_text(encoding="utf-8")
        before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
        table = ["| fault | tried | what came of it |", "|---|---|---|", *lines]
        given.write.write_text(before + MARKS[0] + "\n".join(table) + "\n" + MARKS[1] + after, encoding="utf-8")


JUMPING = """
import datetime, random, time
real, off = time.time, lambda: random.uniform(-86400, 86400)
class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=off())
datetime.datetime = Jumping
time.time = lambda: real() + off()
time.time_ns = lambda: int(time.time() * 1e9)
"""
SLOW = """
import os, time
sync, rename = os.fsync, os.replace
os.fsync = lambda *a: (time.sleep(0.3), sync(*a))[1]
os.replace = lambda *a: (time.sleep(0.3), rename(*a))[1]
"""
FULL = 400_000
"""Bytes of a disk that is too small for the run."""


def faults(work: Path, data: Path, whole: Path, given: argparse.Namespace) -> Iterator[str]:
    """A row of the table for each kind of fault. The books are the journal and the manifest."""
    shards, books = sorted(whole.glob("*.parquet")), [whole / "_journal.jsonl", whole / "_manifest.json"]
    yield row("a bit of a shard flips", given.flips, flips(shards, given.flips, lambda: not verified(whole)))
    yield row("a bit of the books flips", given.flips, flips(books, given.flips, lambda: not verified(whole)))
    half = broken_off(work, data)
    books = [half / "_journal.jsonl", half / "_manifest.json"]
    found = flips(books, given.flips, lambda: not verified(half))
    yield row("a bit of the books of a run that was broken off flips", given.flips, found)
    yield row("a shard, or the journal, is not there any more", len(shards) + 1, missing(whole))
    yield row("a bit of the data flips before the run goes on", 20, flips([data], 20, lambda: refused(data, whole)))
    yield row("one value of the weights changes by a thousandth before the run goes on", 20, weights(20, data, whole))
    killed, together = kills(work, data, whole, given.kills), pairs(work, data, whole, given.starts)
    yield f"| the command is killed (SIGKILL), then typed again | {given.kills} kills | {killed} |"
    both = kills(work / "two", data, whole, 3, more=("--workers", "2"))
    yield f"| the command with 2 workers is killed, then typed again | 3 kills | {both} |"
    yield f"| two commands start at once on one folder | {given.starts} pairs | {together} |"
    yield f"| the command with 2 workers is ended by SIGTERM, by SIGKILL | 1 each | {orphans(work, data)} |"
    yield from bad_luck(work, data, whole)


def bad_luck(work: Path, data: Path, whole: Path) -> Iterator[str]:
    """Faults of the machine, put in place before the command begins."""
    jumped = kills(work / "clock", data, whole, 2, JUMPING)
    yield f"| the clock jumps by up to a day, back and forth, at every look | 2 kills | {jumped} |"
    slowed = kills(work / "slow", data, whole, 2, SLOW)
    yield f"| every sync and every rename takes 0.3 s | 2 kills | {slowed} |"
    yield f"| the disk has {FULL // 1000} kB, then room again | 1 | {filled(work, data, whole)} |"


def row(fault: str, tried: int, noticed: int) -> str:
    return f"| {fault} | {tried} | {noticed} noticed |"


def written(path: Path) -> Path:
    """Rows enough for a run of some seconds, all different."""
    texts = [entry.input for entry in opinions()]
    path.write_text("".join(json.dumps({"text": f"{texts[n % len(texts)]} ({n})"}) + "\n" for n in range(ROWS)))
    return path


def verified(out: Path) -> bool:
    try:
        return whence.verify(out).ok
    except WhenceError:
        return False


def refused(data: Path, out: Path, model: Any = "sentiment") -> bool:
    try:
        whence.run(data, model=model, out=out, method="gi", progress=False)
    except WhenceError:
        return True
    return False


def flips(paths: list[Path], count: int, is_noticed: Callable[[], bool]) -> int:
    """One bit at a time, anywhere in the files; how many are noticed. Spaces of JSON say nothing, and are left out."""
    chance, noticed = random.Random(0), 0
    while count:
        path = chance.choice(paths)
        content = path.read_bytes()
        at = chance.randrange(len(content))
        if path.suffix != ".parquet" and content[at : at + 1].isspace():
            continue
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :])
        noticed += is_noticed()
        path.write_bytes(content)
        count -= 1
    return noticed


def broken_off(work: Path, data: Path) -> Path:
    """A run that was killed after a few shards."""
    out = work / "half"
    process = started(data, out)
    while len(list(out.glob("*.parquet"))) < 4 and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert verified(out)
    return out


def missing(whole: Path) -> int:
    """How often it is said, by all that read a run, that a file is gone."""
    noticed = 0
    for path in (*whole.glob("*.parquet"), whole / "_journal.jsonl"):
        aside = path.rename(path.with_suffix(".aside"))
        try:
            whence.summary(whole)
        except WhenceError:
            noticed += not verified(whole)
        aside.rename(path)
    return noticed


def weights(count: int, data: Path, out: Path) -> int:
    model, chance, noticed = whence.load("sentiment"), random.Random(0), 0
    assert not refused(data, out, model)
    parameters = list(model.module.parameters())
    for _ in range(count):
        flat = chance.choice(parameters).detach().view(-1)
        at = chance.randrange(len(flat))
        value = flat[at].clone()
        with torch.no_grad():
            flat[at] += 1e-3
        noticed += refused(data, out, model)
        with torch.no_grad():
            flat[at] = value
    assert not refused(data, out, model)
    return noticed


def started(data: Path, out: Path, *more: str, fault: str = "") -> subprocess.Popen[str]:
    """The command; a `fault` is code that runs before it."""
    root = str(Path(whence.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-P", "-c", fault + ENTRY, "run", str(data), "--out", str(out), *OPTIONS, *more],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def same(out: Path, whole: Path) -> str:
    """Rows that are not there, and whether shards are the same to the byte."""
    lost = ROWS - len(set(parquet.read_table(out, columns=["row"])["row"].to_pylist()))
    names = sorted(p.name for p in whole.glob("*.parquet"))
    equal = all((out / n).is_file() and (out / n).read_bytes() == (whole / n).read_bytes() for n in names)
    return f"{lost} of {ROWS} rows lost, shards {'the same to the byte' if equal else 'NOT the same'}"


def kills(work: Path, data: Path, whole: Path, count: int, fault: str = "", more: tuple[str, ...] = ()) -> str:
    out, chance, done = work / "killed", random.Random(0), 0
    while done < count:
        process = started(data, out, *more, fault=fault)
        have = len(list(out.glob("*.parquet")))
        while len(list(out.glob("*.parquet"))) <= have and process.poll() is None:  # not before it works
            time.sleep(0.01)
        time.sleep(chance.random() * 0.3)
        process.kill()
        process.communicate()
        done += process.returncode == -signal.SIGKILL
        if process.returncode == 0:
            found = same(out, whole)
            shutil.rmtree(out)
            if "0 of" not in found:
                return found
    assert started(data, out, *more, fault=fault).wait() == 0
    return same(out, whole)


def filled(work: Path, data: Path, whole: Path) -> str:
    """A disk of its own in memory, which takes the right to mount one. It grows after the run has found it full."""
    disk = work / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={FULL}", "whence", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        return "not tried: no right to mount a disk"
    try:
        first = started(data, disk / "out")
        said = first.communicate()[1]
        assert first.returncode == 2, said
        assert "the disk is full" in said, said
        done = len(list((disk / "out").glob("*.parquet")))
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        assert started(data, disk / "out").wait() == 0
        return f"said so after {done} shards; then {same(disk / 'out', whole)}"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def pairs(work: Path, data: Path, whole: Path, count: int) -> str:
    found = set()
    for n in range(count):
        out = work / f"pair{n}"
        first = started(data, out)
        time.sleep(n)
        second = started(data, out)
        said = [p.communicate()[1] for p in (first, second)]
        codes = sorted(p.returncode for p in (first, second))
        assert codes == [0, 0] or any("another run is writing" in s for s in said), said
        found.add(same(out, whole))
    return "; ".join(sorted(found))


def orphans(work: Path, data: Path) -> str:
    left = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        out = work / f"ended{number}"
        process = started(data, out, "--workers", "2")
        while not list(out.glob("*.parquet")) and process.poll() is None:
            time.sleep(0.05)
        below = children(process.pid)
        process.send_signal(number)
        process.communicate()
        time.sleep(5)
        left.append(sum(Path(f"/proc/{pid}").exists() for pid in below))
        assert below
    return f"{left[0]} and {left[1]} processes left after 5 s"


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
    return [p for one in found for p in (int(one), *children(int(one)))]


if __name__ == "__main__":
    main()
