"""Time and memory of every registered method: `python -m benchmarks.costs --write benchmarks/results/costs.json`.

One text of 128 tokens through a classifier with the shape of BERT-base and random weights, through `whence.explain`
with the options that a method has by itself. Time is a ratio to the plain forward pass beside it, in processor time on
one thread; memory is what a process of its own grew by at its peak. `python -m docs.generate` shows both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import whence
from benchmarks.memory import grown
from benchmarks.methods import plain_forward
from benchmarks.timing import alternated, use_clock
from benchmarks.workloads import Workload, workload
from whence.stamp import versions

BATCH, LENGTH, LAYERS = 1, 128, 12
TAKEN_AWAY: dict[str, dict[str, Any]] = {"occlusion": {"fill": "pad"}, "shap": {"fill": "pad"}}
"""A module without a tokenizer has no mask token; the padding token costs the same."""


def explained(work: Workload, method: str) -> object:
    return whence.explain(work.module, work.inputs, method, work.label, progress=False, **TAKEN_AWAY.get(method, {}))


def times(names: list[str], layers: int, rounds: int) -> dict[str, float]:
    """The median ratio to a forward pass, and the passes themselves are not kept."""
    use_clock("cpu")
    work = workload("bert", BATCH, LENGTH, layers=layers)
    series = alternated(partial(plain_forward, work), {name: partial(explained, work, name) for name in names}, rounds)
    return {name: round(found.median, 2) for name, found in series.items()}


def peak(name: str, layers: int) -> float:
    """MiB, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.costs", "--peak", name, "--layers", str(layers)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="the file of results")
    parser.add_argument("--peak", help="print the growth of this process by one method, in MiB")
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.peak:
        work = partial(explained, method=given.peak) if given.peak != "forward" else plain_forward
        print(grown(work, "bert", BATCH, LENGTH, given.layers))
        return
    names = [name for name in whence.methods if name != "lrp"]
    spent = times(names, given.layers, given.rounds)
    found = {
        "command": "python -m benchmarks.costs --write benchmarks/results/costs.json",
        "workload": f"BERT-base, {given.layers} layers, {BATCH} × {LENGTH} tokens, float32, one thread, processor time",
        "versions": versions(),
        "rounds": given.rounds,
        "forward_mib": round(peak("forward", given.layers), 1),
        "methods": {name: {"time": spent[name], "mib": round(peak(name, given.layers), 1)} for name in names},
    }
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    given.write.write_text(text, encoding="utf-8") if given.write else print(text, end="")


if __name__ == "__main__":
    main()
