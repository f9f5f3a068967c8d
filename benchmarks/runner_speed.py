"""A data set run against the bare passes of the same batches and against a loop of single calls; memory as rows grow.

python -m benchmarks.runner_speed [--data DIR] [--rounds 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers

import whence
from benchmarks.rows import made_up, sst2
from benchmarks.timing import sample
from whence.data.rows import Row
from whence.methods.explaining import as_method
from whence.models.adapter import AbstractAdapter
from whence.models.batching import batches
from whence.models.example import Example
from whence.models.text import TextClassifier
from whence.runner.encoding import Beside, Encoder, ahead, encoder
from whence.runner.plan import Plan, Shard
from whence.runner.work import Job

__all__ = ["against_bare", "against_loop", "memory", "resident", "tiny"]

TOKENS, WINDOW, SHARD = 4096, 1024, 16384
"""What a run on two cores settles on for rows like these."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with sst2/dev.tsv.gz; made-up sentences without it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=872)
    given = parser.parse_args()
    texts = (sst2(given.data / "sst2", "dev") if given.data else made_up(given.rows))[: given.rows]
    adapter = whence.load("sentiment")
    for name, ratio in against_bare(adapter, texts, given.rounds).items():
        print(f"{name:<24} {ratio}")
    print(f"{'against single calls':<24} {against_loop(adapter, texts):.1f} times as fast")
    print("memory, MB of this process at rows:", memory((1_000, 4_000, 16_000)))


def against_bare(adapter: AbstractAdapter, texts: list[str], rounds: int) -> dict[str, str]:
    """Run / bare passes, taken in turn, for tokenising in a thread and in a process.

    Twice: by the clock, and by processor time of the thread that runs the model, which other work on the machine does
    not lengthen.
    """
    rows = [Row(n, str(n), text) for n, text in enumerate(texts)]
    plan = Plan(SHARD, WINDOW, TOKENS, torch.get_num_threads())
    batches = _batches(adapter, plan, rows)
    result: dict[str, str] = {}
    seconds: dict[str, list[float]] = {"bare": [], "thread": [], "process": []}
    processor: dict[str, list[float]] = {"bare": [], "thread": [], "process": []}
    with tempfile.TemporaryDirectory() as folder:
        job = Job(adapter, as_method("lrp"), plan, Path(folder))
        # The process is started before the clock: in a long run it is up while rows are still encoded in the thread.
        with encoder(adapter, {"truncate": False}, process=True) as beside:
            if isinstance(beside, Beside):
                beside.ready.wait(120)
            works: dict[str, Callable[[], Any]] = {
                "bare": lambda: _bare(adapter, batches),
                "thread": lambda: _explained(job, adapter, rows, Encoder(adapter, {"truncate": False})),
                "process": lambda: _explained(job, adapter, rows, beside),
            }
            for number in range(rounds + 1):
                for name in works if number % 2 else reversed(works):
                    begin = time.thread_time()
                    spent = sample(works[name])
                    if number:  # the first round warms up
                        seconds[name].append(spent.seconds)
                        processor[name].append(time.thread_time() - begin)
    for name in ("thread", "process"):
        rate = len(rows) / median(seconds[name])
        result[f"run, {name} / bare"] = f"{_ratio(seconds[name], seconds['bare'])}, {rate:.0f} rows/s"
        result[f"model's thread, {name} / bare"] = _ratio(processor[name], processor["bare"])
    return result


def _ratio(ours: list[float], theirs: list[float]) -> str:
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{median(ratios):.3f} ({min(ratios):.3f}–{max(ratios):.3f})"


def _batches(adapter: AbstractAdapter, plan: Plan, rows: list[Row]) -> list[list[Example]]:
    found = []
    for part in plan.windows(rows):
        examples = [e for e in Encoder(adapter, {})(part) if isinstance(e, Example)]
        found += [[examples[i] for i in chosen] for chosen in batches(adapter, examples, plan.batch_tokens)]
    return found


def _bare(adapter: AbstractAdapter, batches: list[list[Example]]) -> None:
    """Forward and backward to the embeddings, without rules, receipts, tokenising or files."""
    table: Any = adapter.module.get_input_embeddings()  # type: ignore[operator]
    flags = [(p, p.requires_grad) for p in adapter.module.parameters()]
    try:
        for p, _ in flags:
            p.requires_grad_(False)
        for part in batches:
            inputs = dict(adapter.collate(part).inputs)
            vectors = table(inputs.pop("input_ids")).detach().requires_grad_()
            logits = adapter.module(inputs_embeds=vectors, **inputs).logits
            torch.autograd.grad(logits.max(-1).values.sum(), vectors)
    finally:
        for p, flag in flags:
            p.requires_grad_(flag)


def _explained(job: Job, adapter: AbstractAdapter, rows: list[Row], encode: Callable[..., Any]) -> None:
    from whence.runner import work

    windows = work._windows(job.plan, [Shard(0, rows)])
    for _ in work._written(job, job.explainer(adapter), ahead((w, encode(w.rows)) for w in windows), lambda n: None):
        pass


def against_loop(adapter: AbstractAdapter, texts: list[str], calls: int = 60) -> float:
    """Rows per second of a run over those of `whence.explain` called for each text."""
    rows = [Row(n, str(n), text) for n, text in enumerate(texts)]
    few = texts[:: max(1, len(texts) // calls)]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        job = Job(adapter, as_method("lrp"), Plan(SHARD, WINDOW, TOKENS, torch.get_num_threads()), Path(folder))
        for _ in range(3):
            loop = sample(lambda: [whence.explain(adapter, text) for text in few]).seconds / len(few)
            run = sample(lambda: _explained(job, adapter, rows, Encoder(adapter, {}))).seconds / len(rows)
            ratios.append(loop / run)
    return median(ratios)


def tiny() -> AbstractAdapter:
    """A classifier so small that rows, not the model, are what is measured."""
    bundled = whence.load("sentiment")
    assert isinstance(bundled, TextClassifier)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=9000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=2
    )
    return whence.load((transformers.BertForSequenceClassification(config).eval(), bundled.tokenizer))


def memory(marks: tuple[int, ...]) -> dict[int, float]:
    """Resident memory of the running process, in MB, when so many rows are done."""
    found: dict[int, float] = {}
    texts = made_up(marks[-1], 12)

    def look(done: int, _total: int | None, _rate: float) -> None:
        for mark in marks:
            if done >= mark:
                found.setdefault(mark, resident())

    with tempfile.TemporaryDirectory() as folder:
        whence.run(iter(texts), model=tiny(), out=folder, rows_per_shard=512, batch_tokens=2048, progress=look)
    return found


def resident() -> float:
    """Resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    main()
