"""What an explanation costs: `python -m benchmarks.speed [--write FILE] [--rounds N] [--peers PYTHON] [--json FILE]`.

Everything is a ratio to a plain forward pass that ran right beside it. The page is written by this script alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.memory import METHODS, peak_growth
from benchmarks.methods import (
    PRESETS,
    RECEIPTS,
    by_hand,
    by_hand_intercepted,
    ours,
    plain_forward,
    through_api,
    with_graph,
)
from benchmarks.report import page
from benchmarks.timing import Clock, alternated, paired, sample, use_clock
from benchmarks.workloads import SHAPES, Workload, workload
from whence import stamp

__all__ = ["main"]

FAMILIES = ("bert", "llama")
LAYERS = 12


def methods_of(work: Workload) -> dict[str, Callable[[], object]]:
    """Everything that is timed on one workload, in the order of the table."""
    return {
        "forward with graph": partial(with_graph, work),
        "Gradient×Input by hand": partial(by_hand, work),
        **ours(work, PRESETS, RECEIPTS),
        "whence.explain ah_ln, full": partial(through_api, work, "ah_ln", "full"),
        "whence.explain exact, full": partial(through_api, work, "exact", "full"),
    }


def overhead(work: Workload, rounds: int) -> dict[str, Any]:
    """What the mode itself costs: by hand with the mode over by hand without, beside by hand over itself.

    A model of the same depth that is too narrow to take any time of its own makes the same calls: the difference
    there is what the calls cost, without anything that grows with the tensors.
    """
    direct = paired(partial(by_hand, work), partial(by_hand_intercepted, work), 2 * rounds)
    same = paired(partial(by_hand, work), partial(by_hand, work), 2 * rounds)
    narrow = workload(work.family, 1, 2, hidden=48, layers=work.module.config.num_hidden_layers)
    cost = paired(partial(by_hand, narrow), partial(by_hand_intercepted, narrow), 10 * rounds)
    whole = min(sample(partial(by_hand, work)).seconds for _ in range(5))
    return {
        "direct": asdict(direct),
        "same": asdict(same),
        "milliseconds": 1000 * median(cost.seconds),
        "by_hand_seconds": whole,
    }


def memory(family: str, layers: int) -> dict[str, float]:
    """Peak growth in MiB per method, on the long input."""
    return {method: peak_growth(method, family, *SHAPES[-1], layers) for method in METHODS}


def peers(python: str, rounds: int, layers: int, clock: Clock) -> dict[str, Any]:
    """What `benchmarks.peers` finds in another environment."""
    options = ["--rounds", str(rounds), "--layers", str(layers), "--clock", clock]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "peers.json"
        subprocess.run([python, "-m", "benchmarks.peers", *options, "--json", str(found)], check=True)
        return json.loads(found.read_text())


def machine() -> dict[str, Any]:
    """The processor, its cores as seen by this process, and the memory."""
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    total = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "memory_gib": round(total / 2**20, 1),
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **stamp.versions("numpy")}


def measure(options: argparse.Namespace, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """All measurements. `keep` gets what there is so far after each part."""
    use_clock(options.clock)
    result: dict[str, Any] = {
        "machine": machine(),
        "versions": versions(),
        "command": command(options),
        "rounds": options.rounds,
        "layers": options.layers,
        "clock": options.clock,
        "workloads": {},
        "overhead": {},
        "memory": {},
    }
    for family in FAMILIES:
        for shape in SHAPES:
            work = workload(family, *shape, layers=options.layers)
            print(f"timing {work.name}", file=sys.stderr)
            series = alternated(partial(plain_forward, work), methods_of(work), options.rounds)
            result["workloads"][work.name] = {name: asdict(s) for name, s in series.items()}
            if shape == SHAPES[0]:
                result["overhead"][work.name] = overhead(work, options.rounds)
            keep(result)
    for family in FAMILIES:
        print(f"measuring memory of {family}", file=sys.stderr)
        result["memory"][family] = memory(family, options.layers)
        keep(result)
    if options.peers:
        print("timing other libraries", file=sys.stderr)
        result["peers"] = peers(options.peers, options.rounds, options.layers, options.clock)
        keep(result)
    return result


def command(options: argparse.Namespace) -> str:
    """How to get this page again, without places on this machine."""
    chosen = [f"--rounds {options.rounds}"]
    chosen += [f"--layers {options.layers}"] if options.layers != LAYERS else []
    chosen += [f"--clock {options.clock}"] if options.clock != "wall" else []
    chosen += ["--peers PYTHON"] if options.peers else []
    return " ".join(["python -m benchmarks.speed --write docs/benchmarks.md", *chosen])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="write the page to this file instead of printing it")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of alternated measurements (default: 5)")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has whence and the other libraries")
    parser.add_argument("--json", type=Path, help="write all measurements to this file, as they come")
    parser.add_argument("--layers", type=int, default=LAYERS, help="layers of the models, for a quick look")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall",
        help="wall time on all cores, or processor time on one thread where the machine is never quiet",
    )  # fmt: skip
    options = parser.parse_args()

    def keep(result: dict[str, Any]) -> None:
        if options.json:
            options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False))

    text = page(measure(options, keep))
    if options.write:
        options.write.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
