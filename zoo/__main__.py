"""`python -m zoo [--only NAME,…] [--write docs/coverage.md]`: build, explain and check every architecture."""

from __future__ import annotations

import argparse
import gc
import sys
import traceback

import torch

from zoo.build import CannotBuild, architectures, build
from zoo.check import CANNOT_BE_BUILT, QUESTIONS, Verdict, check
from zoo.report import write


def judge(task: str, model_type: str, *, verbose: bool = False) -> Verdict:
    try:
        specimen = build(task, model_type)
    except CannotBuild as error:
        return Verdict(task, model_type, reason=f"{CANNOT_BE_BUILT}: {error}")
    try:
        return check(specimen)
    except Exception as error:  # one broken architecture must not hide the others
        if verbose:
            traceback.print_exc()
        return Verdict(task, model_type, reason=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m zoo", description=__doc__)
    parser.add_argument("--only", help="comma-separated model types")
    parser.add_argument("--task", help="comma-separated tasks")
    parser.add_argument("--write", metavar="FILE", help="write the report here")
    options = parser.parse_args()
    torch.set_num_threads(1)  # tiny tensors: threads cost more than they give
    only = set(options.only.split(",")) if options.only else None
    tasks = set(options.task.split(",")) if options.task else None
    todo = [(t, m) for t, m in architectures() if (not only or m in only) and (not tasks or t in tasks)]
    verdicts = []
    for number, (task, model_type) in enumerate(todo, 1):
        verdict = judge(task, model_type, verbose=bool(only))
        verdicts.append(verdict)
        state = "ok" if verdict.passed else verdict.reason or "fails: " + ", ".join(verdict.failures())
        numbers = " ".join(f"{getattr(verdict, question):.0e}" for question in QUESTIONS)
        unruled = f" {verdict.unruled}" if verdict.unruled else ""
        print(f"[{number:3}/{len(todo)}] {task:30} {model_type:28} {numbers:30} {state}{unruled}", flush=True)
        gc.collect()
    if options.write:
        write(verdicts, options.write)
    built = [v for v in verdicts if v.is_built]
    print(f"{sum(v.passed for v in built)} of {len(built)} that can be built pass ({len(verdicts)} in all)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
