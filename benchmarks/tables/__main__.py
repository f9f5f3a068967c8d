"""`python -m benchmarks.tables --data DIR --teacher DIR [--jobs 8] [--quick] [--only sst2,pets,…]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.tables import ali, embedding_norm, pets, report, reviews
from benchmarks.tables.tasks import TEXT_TASKS

PARTS = [*TEXT_TASKS, "mnist", "pets", "reviews", "extras", "norm"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--teacher", type=Path, help="folder of a pretrained BERT-style encoder (MiniLM)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--only", help="comma-separated: " + ", ".join(PARTS))
    parser.add_argument("--models", default="ali,minilm")
    parser.add_argument("--jobs", type=int, default=1, help="tables at the same time, each in a process of its own")
    parser.add_argument("--quick", action="store_true", help="a few examples each: minutes on two cores")
    parser.add_argument("--report", action="store_true", help="only write docs/results.md from the result files")
    options = parser.parse_args()
    if not options.report:
        run(options)
    if options.report or not (options.quick or options.only):
        report.write(options.out, Path("docs/results.md"))


def run(options: argparse.Namespace) -> None:
    chosen = options.only.split(",") if options.only else PARTS
    kinds = options.models.split(",")
    parts = [(name, kind) for name in chosen for kind in (kinds if name in TEXT_TASKS else kinds[:1])]
    work = _apart if options.jobs > 1 else _here
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda part: work(*part, options), parts))


def _apart(name: str, kind: str, options: argparse.Namespace) -> None:
    """One part in a new process: processes share a GPU well, and the random numbers of each stay its own."""
    given = [
        "--data",
        options.data,
        "--teacher",
        options.teacher,
        "--out",
        options.out,
        "--only",
        name,
        "--models",
        kind,
    ]
    flags = ["--quick"] if options.quick else []
    subprocess.run([sys.executable, "-m", "benchmarks.tables", *map(str, given), *flags], check=False)


def _here(name: str, kind: str, options: argparse.Namespace) -> None:
    start = time.time()
    try:
        if name in TEXT_TASKS:
            ali.run_task(name, kind, options.data, options.teacher, options.out, quick=options.quick)
        elif name == "mnist":
            ali.run_mnist(options.data, options.out, quick=options.quick)
        elif name == "pets":
            pets.run_pets(options.data, options.out, quick=options.quick)
        elif name == "reviews":
            reviews.run_reviews(options.data, options.teacher, options.out, quick=options.quick)
        elif name == "extras":
            reviews.run_sst2_extras(options.data, options.teacher, options.out, quick=options.quick)
        elif name == "norm":
            embedding_norm.run_embedding_norm(options.data, options.out, quick=options.quick)
        else:
            raise SystemExit(f"no table is called {name!r}; there are {', '.join(PARTS)}")
    except Exception:  # one table must not cost the others
        traceback.print_exc()
    print(f"== {name} {kind if name in TEXT_TASKS else ''}: {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
