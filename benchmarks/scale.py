"""Explain all SST-2 sentences with the bundled model and measure how cost grows; writes docs/scale.md.

python -m benchmarks.scale --data DIR --write docs/scale.md
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
import transformers

import whence
from benchmarks.rows import WORDS, sst2
from benchmarks.runner_speed import against_bare, against_loop, memory
from benchmarks.timing import sample
from whence.models.adapter import AbstractAdapter
from whence.models.text import TextClassifier
from whence.results.percents import percent
from whence.runner import Summary, summary
from whence.runner.show import opened

__all__ = ["report"]

LENGTHS = (8, 16, 32, 64, 128, 250)
SIZES = ((2, 128), (4, 256), (6, 512), (12, 768))
"""Layers and hidden size; the last is BERT-base."""
OVERHEAD = 3072
"""Sentences that the overhead is measured on: three windows, so that encoding has a model to run beside."""
FURTHER = "Clusters, and a plan for 10⁸ rows from these figures: [cluster.md](cluster.md).\n"


class Course(NamedTuple):
    """A run as it went, from the times of its shards: also one that was interrupted and went on."""

    rows: list[int]
    seconds: list[float]

    @classmethod
    def of(cls, out: Path) -> Course:
        _, journal = opened(out)
        ended = sorted(((out / r.file).stat().st_mtime, r.rows) for r in journal.done.values())
        first, rows, seconds = ended[0][0], [0], [0.0]
        for time, count in ended[1:]:  # the first shard is where the clock starts
            rows.append(rows[-1] + count)
            seconds.append(time - first)
        return cls(rows, seconds)

    @property
    def rate(self) -> float:
        return self.rows[-1] / self.seconds[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with sst2/{train,dev,test}.tsv.gz")
    parser.add_argument("--limit", type=int, help="only so many sentences")
    parser.add_argument("--out", type=Path, help="keep the output of the run here (and go on with it)")
    parser.add_argument("--as-is", action="store_true", help="report on the run in --out as far as it has come")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    text = report(given.data / "sst2", given.limit, given.out, as_is=given.as_is)
    if given.write:
        given.write.write_text(text)
    else:
        print(text)


def report(folder: Path, limit: int | None, out: Path | None = None, *, as_is: bool = False) -> str:
    """The page."""
    texts = sst2(folder, "dev", "test", "train")
    adapter, few = whence.load("sentiment"), texts[:: max(1, len(texts) // OVERHEAD)][:OVERHEAD]
    overhead = _speed(against_bare(adapter, few, 3), against_loop(adapter, few, 100))
    growth = _by_length(adapter) + "\n" + _by_size(adapter)
    flat = _flat(memory((1_000, 4_000, 16_000)))
    with tempfile.TemporaryDirectory() as temporary:
        where = out or Path(temporary) / "out"
        if not as_is:
            whence.run(texts[:limit], model="sentiment", out=where, scores="float16", progress=True)
        seen, course = summary(where), Course.of(where)
        size = sum(p.stat().st_size for p in where.glob("*.parquet"))
    found = "## What the run found\n```\n" + str(seen) + "\n```\n"
    parts = [_head(), _whole(seen, size, len(texts), course), _by_rows(course), flat, overhead, growth]
    return "\n".join([*parts, FURTHER, found])


def _head() -> str:
    return f"""# Data sets at scale
Written by `python -m benchmarks.scale --data DIR --write docs/scale.md`. Measured with torch {torch.__version__} on
{torch.get_num_threads()} of {os.cpu_count()} cores ({platform.machine()}) that other work used at times: rates differ
from one minute to the next. Ratios were taken in turn and are medians.
"""


def _whole(seen: Summary, size: int, count: int, course: Course) -> str:
    which = "All" if seen.rows == count else f"The first {seen.rows:,} of the {count:,} (`--limit`)"
    return f"""## SST-2
{which} sentences of SST-2 (dev, test, train), bundled model `sentiment`, method `lrp` with the full receipt:

| rows | failed | tokens | time | rows/s | output | bytes per row |
|---|---|---|---|---|---|---|
| {seen.rows:,} | {seen.failed} | {seen.tokens:,} | {course.seconds[-1]:.0f} s | {course.rate:.0f} | \
{size / 1e6:.1f} MB | {size / seen.rows:.0f} |

Time and rate are from the first finished shard to the last. Conservation: relative error
within 1e-3 for {percent(seen.conserved["0.001"], 2)} of rows, within 1e-5 for
{percent(seen.conserved["1e-05"], 2)}, at most {seen.conserved["max"]:.1e}.
"""


def _by_rows(course: Course) -> str:
    steps = range(1, len(course.rows), max(1, (len(course.rows) - 1) // 8))
    lines = [
        f"| {course.rows[n]:,} | {course.seconds[n]:.0f} | {course.rows[n] / course.seconds[n]:.0f} |" for n in steps
    ]
    return (
        "## Rows\nThe same run as it went. Every row costs the same; what bends the curve is the other work on the "
        "machine, and that dev and test, which come first, are longer than train.\n\n"
        "| rows since the first shard | seconds | rows/s so far |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    )


def _flat(found: dict[int, float]) -> str:
    cells = ", ".join(f"{mb:.0f} MB at {rows:,}" for rows, mb in found.items())
    return f"""## Memory
Resident memory of the process as rows of one run are done, with a model of one layer, which leaves little but the rows
to take memory: {cells} rows.
"""


def _speed(bare: dict[str, str], loop: float) -> str:
    lines = "\n".join(f"| {name} | {value} |" for name, value in bare.items())
    return f"""## Overhead
Run, with tokenising, receipts and files, over the bare forward and backward passes of the same batches, on
{OVERHEAD:,} sentences spread over SST-2; and against `whence.explain` called for each text. *Model's thread* is
processor time of the thread that runs the model. A run this short waits for its first window of 1,024 rows to be
encoded before the model starts; over a data set that wait is paid once.

| | median (range) |
|---|---|
{lines}
| run / loop of single calls | {loop:.1f} × as fast |
"""


def _rate(work: Callable[[], Any], rows: int) -> float:
    work()
    return rows / median(sample(work).seconds for _ in range(3))


def _by_length(adapter: AbstractAdapter) -> str:
    lines = []
    for length in LENGTHS:
        text = " ".join(WORDS[n % 8] for n in range(length - 2))  # words that are one token each, and two special ones
        rows = max(4, 1024 // length)
        rate = _rate(lambda: whence.explain(adapter, [text] * rows, batch_tokens=1024, progress=False), rows)
        lines.append(f"| {length} | {rate:.1f} | {rate * length:.0f} |")
    return (
        "## Length\nBundled model, rows of one length, 1,024 tokens in a batch.\n\n| tokens | rows/s | tokens/s |\n"
        "|---|---|---|\n" + "\n".join(lines) + "\n"
    )


def _by_size(bundled: AbstractAdapter) -> str:
    assert isinstance(bundled, TextClassifier)
    text, rows, lines = " ".join(WORDS[n % 8] for n in range(22)), 16, []
    for layers, hidden in SIZES:
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=9000, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
            intermediate_size=4 * hidden, num_labels=2,
        )  # fmt: skip
        module = transformers.BertForSequenceClassification(config).eval()
        adapter = whence.load((module, bundled.tokenizer))
        weights = sum(p.numel() for n, p in module.named_parameters() if "embeddings" not in n)
        rate = _rate(lambda: whence.explain(adapter, [text] * rows, batch_tokens=1024, progress=False), rows)
        lines.append(
            f"| {layers} × {hidden} | {weights / 1e6:.1f} M | {rate:.1f} | {rate * 24 * weights * 6 / 1e9:.1f} |"
        )
    return (
        "## Model size\nRandom BERTs, 16 rows of 24 tokens. The last column counts 6 operations for each weight and "
        "token: a forward pass and a backward pass to the inputs take about 4, receipts and rules some more.\n\n"
        "| layers × hidden | weights without embeddings | rows/s | Gflop/s at 6 per weight |\n|---|---|---|---|\n"
        + "\n".join(lines)
        + "\n"
    )


if __name__ == "__main__":
    main()
