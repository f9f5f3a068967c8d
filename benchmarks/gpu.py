"""What an explanation costs on a GPU, and how long an input it takes: `python -m benchmarks.gpu [--write FILE]`.

Times are ratios to a plain forward pass beside them; memory is the peak of the CUDA allocator over the loaded model.
Shapes are those of `benchmarks.speed`, larger batches, and one long input after the other until memory ends.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers

from benchmarks.methods import by_hand, plain_forward, relevance
from benchmarks.workloads import Workload, workload

__all__ = ["main"]

SHAPES = {"bert": ((8, 128), (64, 512)), "llama": ((8, 128), (16, 1024), (1, 16384), (1, 65536))}
METHODS: dict[str, Callable[[Workload], object]] = {
    "Gradient×Input by hand": by_hand,
    "ah_ln": partial(relevance, preset="ah_ln", receipt="short"),
    "exact": partial(relevance, preset="exact", receipt="short"),
    "exact, full receipt": partial(relevance, preset="exact", receipt="full"),
    "attn_lrp": partial(relevance, preset="attn_lrp", receipt="short"),
}
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="write the page to this file instead of printing it")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    parser.add_argument("--from", dest="read", type=Path, help="write the page from measurements instead of measuring")
    parser.add_argument("--quick", action="store_true", help="small shapes of few layers, also without a GPU")
    given = parser.parse_args()

    def keep(found: dict[str, Any]) -> None:
        if given.json:
            given.json.write_text(json.dumps(found, indent=1, ensure_ascii=False))

    found = json.loads(given.read.read_text()) if given.read else measured(keep, quick=given.quick)
    text = page(found)
    given.write.write_text(text) if given.write else print(text)


def measured(keep: Callable[[dict[str, Any]], None], *, quick: bool = False) -> dict[str, Any]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shapes = {"bert": ((2, 16),), "llama": ((2, 16), (1, 64))} if quick else SHAPES
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "rows": [],
    }
    for family, sizes in shapes.items():
        for batch, length in sizes:
            work = _on(device, family, batch, length, layers=2 if quick else 12)
            for name, method in METHODS.items():
                row = {"work": work.name, "method": name, **_one(work, method)}
                print(row, flush=True)
                found["rows"].append(row)
                keep(found)
            del work
            gc.collect()
            torch.cuda.empty_cache() if device == "cuda" else None
    return found


def _on(device: str, family: str, batch: int, length: int, layers: int) -> Workload:
    made = workload(family, batch, length, layers=layers)
    made.module.config.max_position_embeddings = max(length, made.module.config.max_position_embeddings)
    module = made.module.to(device, torch.bfloat16 if device == "cuda" else torch.float32)
    return replace(made, module=module, inputs={"input_ids": made.inputs["input_ids"].to(device)})


def _one(work: Workload, method: Callable[[Workload], object]) -> dict[str, Any]:
    unit = partial(plain_forward, work)
    try:
        unit(), method(work)
        ratios = []
        for _ in range(ROUNDS):
            before, spent, after = _seconds(unit), _seconds(partial(method, work)), _seconds(unit)
            ratios.append(2 * spent / (before + after))
        return {"ratios": ratios, "seconds": spent, "memory": _peak(partial(method, work)), "forward": _peak(unit)}
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return {"error": "out of memory"}


def _seconds(work: Callable[[], object]) -> float:
    """By CUDA events where there is a GPU: the clock of the host would end before the work does."""
    if not torch.cuda.is_available():
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1000


def _peak(work: Callable[[], object]) -> float:
    """MiB at the peak, over what was held before."""
    if not torch.cuda.is_available():
        return float("nan")
    gc.collect()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def page(found: dict[str, Any]) -> str:
    rows = found["rows"]
    works = list(dict.fromkeys(row["work"] for row in rows))
    names = list(dict.fromkeys(row["method"] for row in rows))
    cell = {(row["work"], row["method"]): row for row in rows}
    lines = [
        "# On a GPU",
        "",
        "Written by `python -m benchmarks.gpu --write docs/benchmarks_gpu.md`.",
        "",
        f"- {found['device']}, torch {found['torch']}, transformers {found['transformers']}, bfloat16, SDPA",
        "- the models of [benchmarks.md](benchmarks.md), random weights, batch × tokens",
        "",
        "## Time",
        "",
        f"Over a plain forward pass that ran beside it; median of {ROUNDS} rounds.",
        "",
        _table(["method", *works], [[name, *(_time(cell[w, name]) for w in works)] for name in names]),
        "",
        "## Memory",
        "",
        "MiB at the peak over the loaded model; in brackets over a plain forward pass.",
        "",
        _table(["method", *works], [[name, *(_memory(cell[w, name]) for w in works)] for name in names]),
        "",
    ]
    return "\n".join(lines)


def _time(row: dict[str, Any]) -> str:
    return row.get("error") or f"{median(row['ratios']):.2f} ({row['seconds'] * 1000:.0f} ms)"


def _memory(row: dict[str, Any]) -> str:
    return row.get("error") or f"{row['memory']:,.0f} ({row['memory'] / row['forward']:.1f})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
