"""Data sets through `whence.run` on a GPU: rows a second, and how busy it was. A part of `python -m benchmarks.gpu`."""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

import whence
from benchmarks.busy import Busy

__all__ = ["lines", "rates"]

WORDS = 150
"""Of a document."""
SHARD = 4096
"""Rows: few enough for the last ones to be shared out."""
FEW, SHORT = 16, (25, 32)
"""Rows of a small batch, and their tokens."""


class Work(NamedTuple):
    """Rows of one kind, for a model, with so many processes."""

    rows: str
    model: str
    processes: int
    every: int = 1
    """One row of so many is taken."""
    batch_tokens: int | None = None


WORKS = (
    Work("documents", "bert", 3),
    Work("sentences", "bert", 3),
    Work("small batches", "bert", 1, batch_tokens=FEW * SHORT[1]),
    Work("sentences", "bert", 1),
    Work("documents", "bert", 1, every=3),
    Work("documents", "llama-1b", 1, every=40),
)


def rates(made: Callable[[str], nn.Module], data: Path, quick: bool) -> Iterator[dict[str, Any]]:
    """A line for each work. `made` gives the module of a model's name; its weights are random."""
    tokenizer = whence.load("sentiment").tokenizer
    texts = _sentences(data)[: 300 if quick else None]
    words = " ".join(texts).split()
    step = WORDS if quick else WORDS // 30
    documents = [" ".join(words[i : i + WORDS]) for i in range(0, len(words) - WORDS, step)]
    sizes = [len(ids) for ids in tokenizer(texts)["input_ids"]]
    short = [text for text, size in zip(texts, sizes, strict=True) if SHORT[0] <= size <= SHORT[1]]
    times = 1 if quick else 3  # so that the start is a small part of it
    kinds = {"sentences": texts * times, "documents": documents, "small batches": short * (1 if quick else 16)}
    known: dict[str, Any] = {}
    for work in WORKS:
        if work.model not in known:
            known = {work.model: whence.load((made(work.model), tokenizer))}
        rows = kinds[work.rows][:: work.every]
        found: dict[str, Any] = {**work._asdict(), "count": len(rows)}
        try:
            found |= _rate(known[work.model], rows, work)
        except Exception as error:  # a figure that can't be had is one line of the table
            found["error"] = f"{type(error).__name__}: {str(error)[:80]}"
        yield found


def _sentences(data: Path) -> list[str]:
    """All sentences of SST-2."""
    parts = [gzip.decompress(part.read_bytes()).decode() for part in sorted(data.glob("*.tsv.gz"))]
    return [max(line.split("\t"), key=len) for part in parts for line in part.splitlines()[1:]]


def _rate(model: Any, texts: Sequence[str], work: Work) -> dict[str, float]:
    """Seconds in all; rows a second, and how busy the GPU was, after the first fifth of them."""
    ticks: list[tuple[int, float]] = []

    def progress(done: int, total: int | None, seconds: float) -> None:
        ticks.append((done, time.perf_counter()))

    options = {"rows_per_shard": SHARD, **({} if work.batch_tokens is None else {"batch_tokens": work.batch_tokens})}
    with tempfile.TemporaryDirectory() as folder, Busy() as busy:
        begin = time.perf_counter()
        rows = [{"text": text} for text in texts]
        out = Path(folder) / "out"
        whence.run(rows, model=model, out=out, workers=work.processes, progress=progress, **options)
        spent = time.perf_counter() - begin
    (first, at), (last, end) = next(tick for tick in ticks if tick[0] >= len(texts) / 5), ticks[-1]
    rate = (last - first) / (end - at) if last > first else len(texts) / spent
    share = busy.between(at, end)
    return {"seconds": spent, "rows_per_s": rate, **({} if share is None else {"busy": share})}


def lines(found: Sequence[dict[str, Any]]) -> list[str]:
    """The part of the page."""
    few = next((row for row in found if row["rows"] == "small batches" and "error" not in row), None)
    return [
        "## Data sets",
        "",
        f"Through `whence.run` to Parquet, in shards of {SHARD:,} rows, on one GPU; `lrp` with a full receipt. "
        f"*Sentences*: all of SST-2, three times over; *documents*: {WORDS} words of them, each from "
        f"{WORDS // 30} words after the one before; *small batches*: sentences of {SHORT[0]} to {SHORT[1]} tokens, "
        f"{FEW} in a batch. Once running: after the "
        "first fifth of the rows. Busy: the share of that time in which any kernel ran, as `nvidia-smi` tells it.",
        "",
        "| rows | model | processes | rows a second, once running | GPU busy, once running | rows | seconds in all |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
        *("| " + " | ".join(_cells(row)) + " |" for row in sorted(found, key=_place)),
        "",
        *([f"A batch of {FEW} takes {1000 * FEW / few['rows_per_s']:.1f} ms.", ""] if few else []),
    ]


def _place(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["model"], row["processes"], row["rows"]


def _cells(row: dict[str, Any]) -> list[str]:
    busy = f"{100 * row['busy']:.0f} %" if "busy" in row else "–"
    rate = [f"{row['rows_per_s']:,.0f}", busy] if "error" not in row else [row["error"], "–"]
    seconds = f"{row['seconds']:.1f}" if "error" not in row else "–"
    return [row["rows"], row["model"], str(row["processes"]), *rate, f"{row['count']:,}", seconds]
