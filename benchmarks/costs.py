"""Time and memory of every registered method: `python -m benchmarks.costs --write benchmarks/results/costs.json`.

One text of 64 tokens through a classifier with the shape of BERT-base and random weights, through `whence.explain` with
the options that a method has by itself. Time is a ratio to the plain forward pass beside it, in processor time on one
thread; memory is what a copy of the process (a fork) grew by at its peak. `python -m docs.generate` shows both.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import whence
from benchmarks.memory import status
from benchmarks.methods import plain_forward
from benchmarks.timing import alternated, use_clock
from benchmarks.workloads import Workload, workload
from whence.stamp import versions

BATCH, LENGTH, LAYERS = 1, 64, 12
TAKEN_AWAY: dict[str, dict[str, Any]] = {"occlusion": {"fill": "pad"}, "shap": {"fill": "pad"}}
"""A module without a tokenizer has no mask token; the padding token costs the same."""


def explained(work: Workload, method: str) -> object:
    """One explanation, as a user would ask for it."""
    return whence.explain(work.module, work.inputs, method, work.label, progress=False, **TAKEN_AWAY.get(method, {}))


def peak(work: Callable[[], object]) -> float:
    """MiB that a fork of this process grows by at its peak; what was freed here before must be little."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the parent
            before = status("VmRSS")
            work()
            os.write(writer, str((status("VmHWM") - before) / 1024).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        found = said.read()
    os.waitpid(child, 0)
    return round(float(found), 1)  # nothing was said: the work failed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="the file of results")
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    use_clock("cpu")
    names = [name for name in whence.methods if name != "lrp"]
    small = workload("bert", 1, 8, layers=1, hidden=48)
    for name in names:
        explained(small, name)  # what is imported and built once is not counted
    work = workload("bert", BATCH, LENGTH, layers=given.layers)
    calls = {name: partial(explained, work, name) for name in names}
    forward = partial(plain_forward, work)
    memory = {name: peak(call) for name, call in {"forward": forward, **calls}.items()}
    spent = alternated(forward, calls, given.rounds)
    found = {
        "command": "python -m benchmarks.costs --write benchmarks/results/costs.json",
        "workload": f"BERT-base, {given.layers} layers, {BATCH} × {LENGTH} tokens, float32, one thread, processor time",
        "versions": versions(),
        "rounds": given.rounds,
        "forward_mib": memory["forward"],
        "methods": {name: {"time": round(spent[name].median, 2), "mib": memory[name]} for name in names},
    }
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    given.write.write_text(text, encoding="utf-8") if given.write else print(text, end="")


if __name__ == "__main__":
    main()
