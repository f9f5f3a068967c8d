"""What a run will cost, from a small measured sample; and the plan that the sample suggests."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from whence.data.rows import Row
from whence.errors import InputError
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.runner.budget import probe
from whence.runner.encoding import Encoder
from whence.runner.meter import duration
from whence.runner.plan import Plan, cut
from whence.runner.shards import ShardWriter
from whence.runner.window import Encoded
from whence.runner.work import Job

__all__ = ["Forecast", "forecast", "suggested"]

SAMPLE = 256
"""Rows that are looked at before a run."""
MEASURED = 20.0
"""Seconds that measuring may take, about."""
SHARD_SECONDS = 60
"""Work that a dying process may lose."""
FEW, MANY = 8, 32
"""Batches in a window. Many sort better by length, leave fewer half full, and seldom have a GPU wait for the next
window; few take less memory."""
LIGHT = 1 << 26
"""Bytes of inputs up to which a window has many."""


@dataclass(frozen=True)
class Forecast:
    """What a run will take here."""

    rows: int | None
    sampled: int
    failed: int
    rows_per_second: float
    tokens_per_row: float
    memory: int
    """Bytes, at the peak so far: model, batch and libraries."""
    bytes_per_row: float
    plan: Plan

    @property
    def seconds(self) -> float | None:
        return None if self.rows is None else self.rows / self.rows_per_second

    @property
    def bytes(self) -> int | None:
        return None if self.rows is None else int(self.rows * self.bytes_per_row)

    def __str__(self) -> str:
        count = "unknown (the data has to be read to count)" if self.rows is None else f"{self.rows:,}"
        time_ = "unknown" if self.seconds is None else duration(self.seconds)
        size = "unknown" if self.bytes is None else _size(self.bytes)
        failed = f", {self.failed} of them failed" if self.failed else ""
        return "\n".join(
            (
                f"rows      {count}",
                f"sample    {self.sampled} rows{failed}, {self.tokens_per_row:.1f} tokens each",
                f"rate      {self.rows_per_second:.1f} rows/s with one worker here",
                f"time      {time_}",
                f"memory    {_size(self.memory)}",
                f"output    {size} ({self.bytes_per_row:.0f} bytes per row)",
                f"plan      {self.plan.batch_tokens} tokens per batch, {self.plan.rows_per_shard} rows per shard",
            )
        )


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def suggested(
    adapter: AbstractAdapter,
    method: AbstractMethod,
    encoded: list[Encoded],
    *,
    batch_tokens: int | None,
    rows_per_shard: int | None,
    scores: str,
) -> Plan:
    """The plan for rows like these: what was not given is found by measuring."""
    examples = [e for e in encoded if isinstance(e, Example)]
    if not examples:
        reasons = sorted({e for e in encoded if isinstance(e, str)})
        raise InputError(f"none of the first {len(encoded)} rows can be read. {reasons[0] if reasons else ''}".strip())
    mean = sum(e.cost for e in examples) / len(examples)
    if batch_tokens is None or rows_per_shard is None:
        found = probe(adapter, method, examples)
        batch_tokens = batch_tokens or found.tokens
        worth = SHARD_SECONDS * found.tokens_per_second / mean
        rows_per_shard = rows_per_shard or _power(worth, 256, 16384)
    size = sum(value.nbytes for e in examples for value in e.inputs.values()) / len(examples)
    in_batch = batch_tokens / mean
    held = (MANY if MANY * in_batch * size <= LIGHT else FEW) * in_batch
    window = min(rows_per_shard, _power(held, 64, 16384))
    return Plan(rows_per_shard, window, batch_tokens, torch.get_num_threads(), scores)


def _power(value: float, low: int, high: int) -> int:
    """The power of two below `value`, within bounds."""
    return max(low, min(high, 1 << max(0, int(value).bit_length() - 1)))


def forecast(job: Job, adapter: AbstractAdapter, sample: list[Row], count: int | None) -> Forecast:
    """Explain a sample, write it, and see what it took."""
    explainer, encode = job.explainer(adapter), Encoder(adapter, job.encoding)
    results, begin = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        writer = ShardWriter(Path(folder) / "sample.parquet", job.plan.scores)
        for part in cut(sample, max(8, min(64, job.plan.window))):
            made = explainer.window(part.rows, encode(part.rows))
            results += made
            writer.write(made)
            if time.perf_counter() - begin > MEASURED:
                break
        size, _ = writer.commit()
    spent = sum(r.seconds for r in results) or time.perf_counter() - begin  # encoding runs beside the model
    lengths = [r.length for r in results if r.length]
    return Forecast(
        rows=count,
        sampled=len(results),
        failed=sum(r.error is not None for r in results),
        rows_per_second=len(results) / spent,
        tokens_per_row=sum(lengths) / max(1, len(lengths)),
        memory=_memory(adapter),
        bytes_per_row=size / len(results),
        plan=job.plan,
    )


def _memory(adapter: AbstractAdapter) -> int:
    if adapter.device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(adapter.device))
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
