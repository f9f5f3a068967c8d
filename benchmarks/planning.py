"""What a run costs besides explaining; a plan for 10⁸ rows: `python -m benchmarks.planning --write docs/cluster.md`.

`whence.run` over many rows, all of it but the model: an executor that writes an empty file in place of each shard. What
is left is the driver's part: digests, counting, reading, cutting, packing rows for a worker, the journal, and all of it
again when the run goes on. Each size is measured in a process of its own. The rates of a core and of a GPU and the
bytes of a row are read from docs/scale.md and docs/benchmarks_gpu.md, where they were written by what measured them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whence
from whence.data.labelled import opinions
from whence.runner import launch
from whence.runner.manifest import ShardReport
from whence.runner.plan import Shard, digest_of
from whence.runner.work import Job

MARKS = "<!-- plan -->\n", "<!-- end of plan -->\n"
SIZES = (10_000, 100_000, 1_000_000)
ROWS_PER_SHARD = 16_384
HUNDRED_MILLION = 10**8
CORES = (1, 64, 256, 1_000)
GPUS = (1, 8, 64)
SCALE, GPU = Path("docs/scale.md"), Path("docs/benchmarks_gpu.md")


@dataclass(frozen=True)
class Nobody:
    """An executor that packs shards as for a worker, and writes nothing in them."""

    workers: int | None = None

    def run(self, job: Job, _: Any, shards: Iterable[Shard], progress: Callable[[int], None]) -> Iterator[ShardReport]:
        nothing = hashlib.blake2b(digest_size=16).hexdigest()
        for shard in shards:
            pickle.dumps(shard)
            (job.out / shard.file).touch()
            count = len(shard.rows)
            yield ShardReport(
                shard.number, shard.start, count, 0, 0, shard.file, 0, 0.0, nothing, digest_of(shard.rows)
            )
            progress(count)


def measured(rows: int) -> dict[str, float]:
    """Seconds of a first run, of going on with a finished one, of one with a shard to do; memory in MB."""
    launch.EXECUTORS["nobody"] = Nobody
    texts = [entry.input for entry in opinions()]
    model = whence.load("sentiment")
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "data.jsonl", Path(folder) / "out"
        with data.open("w") as file:
            for n in range(rows):
                file.write(json.dumps({"text": f"{texts[n % len(texts)]} ({n})"}) + "\n")

        def seconds() -> float:
            begun = time.process_time()
            whence.run(
                data, model=model, out=out, method="gi", executor="nobody", progress=False,
                rows_per_shard=ROWS_PER_SHARD, batch_tokens=1024,
            )  # fmt: skip
            return time.process_time() - begun

        before = _peak()
        found = {"rows": rows, "bytes": data.stat().st_size, "first": seconds(), "finished": seconds()}
        (out / "shard-000000.parquet").unlink()
        return found | {"one": seconds(), "before": before, "after": _peak()}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def constants() -> tuple[float, float, float]:
    """Rows per second of one core, bytes of a row of the output, rows per second of a GPU with BERT-base."""
    core = re.search(
        r"^\| [\d,]+ \| \d+ \| [\d,]+ \| \d+ s \| (\d+) \| [\d.]+ MB \| (\d+) \|$", SCALE.read_text(), re.M
    )
    gpu = re.search(r"^\| sentences \| bert \| 3 \| ([\d,]+) \|", GPU.read_text(), re.M)
    assert core, f"{SCALE} has no table as benchmarks.scale writes it"
    assert gpu, f"{GPU} has no table of a data set as benchmarks.gpu writes it"
    return float(core[1]), float(core[2]), float(gpu[1].replace(",", ""))


def report(sizes: list[dict[str, float]]) -> str:
    rate, each, gpu = constants()
    small, large = sizes[-2], sizes[-1]
    per_row, again = ((large[k] - small[k]) / (large["rows"] - small["rows"]) for k in ("first", "one"))
    lines = [
        f"| {s['rows']:,.0f} | {s['first']:.1f} | {s['finished']:.1f} | {s['one']:.1f} "
        f"| {s['before']:.0f} | {s['after']:.0f} |"
        for s in sizes
    ]
    driver = HUNDRED_MILLION * per_row
    took = lambda rate: _hours(max(HUNDRED_MILLION / rate, driver))
    plan = [f"| bundled model, {n:,} core{'s' * (n > 1)} | {took(n * rate)} |" for n in CORES]
    plan += [f"| BERT-base, {n:,} GPU{'s' * (n > 1)} | {took(n * gpu)} |" for n in GPUS]
    row = large["bytes"] / large["rows"]
    going_on, size = _hours(HUNDRED_MILLION * again), each * HUNDRED_MILLION / 1e9
    shards, travelling = HUNDRED_MILLION // ROWS_PER_SHARD + 1, 2 * ROWS_PER_SHARD * row
    return f"""The driver's part, processor time in seconds, shards of {ROWS_PER_SHARD:,} rows:

| rows | first run | the same again, finished | again, one shard lost | memory before, MB | at most |
|---|---|---|---|---|---|
{chr(10).join(lines)}

That is {1e6 * per_row:.0f} µs for each further row, or {1 / per_row:,.0f} rows/s: one driver feeds
{1 / per_row / rate:,.0f} cores at the {rate:.0f} rows/s of [scale.md](scale.md), or {1 / per_row / gpu:.0f} GPUs at the
{gpu:,.0f} rows/s (BERT-base) of [benchmarks_gpu.md](benchmarks_gpu.md).

For 10⁸ rows like those of SST-2, computed from these figures; nobody has run it:

| | time |
|---|---|
{chr(10).join(plan)}

- The driver has work for {_hours(driver)}, and for {going_on} to go on after an interruption at the end;
  give it a core. Where the table says {_hours(driver)}, it is what others wait for: cut the data into folders and start
  a run for each.
- Input: {row * HUNDRED_MILLION / 1e9:.0f} GB, read three times (digests before and after, rows between).
- Output: {size:.0f} GB in {shards:,} shards, a line of the journal for each.
- On their way to workers: two shards for each, {travelling / 1e6:.1f} MB, which is {travelling / 1e6:.1f} GB in the
  driver's object store for a thousand workers; Ray spills to disk beyond its limit.
- A machine that is lost costs the shards it had: {2 * ROWS_PER_SHARD / rate:.0f} s of one core at most.
"""


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--one", type=int, help="Measure this many rows, and print JSON.")
    arguments.add_argument("--write", type=Path, help="The page whose plan is replaced.")
    given = arguments.parse_args()
    if given.one:
        print(json.dumps(measured(given.one)))
        return
    sizes = []
    for rows in SIZES:
        command = [sys.executable, "-m", "benchmarks.planning", "--one", str(rows)]
        sizes.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    text = report(sizes)
    print(text)
    if given.write:
        page = given.write.read_text(encoding="utf-8")
        before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
        given.write.write_text(before + MARKS[0] + text + MARKS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
