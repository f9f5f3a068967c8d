"""`python -m benchmarks.tables --data DIR --teacher DIR --out benchmarks/results [--quick] [--only sst2,pets,…]`."""

from __future__ import annotations

import argparse
import shutil
import time
import traceback
from pathlib import Path

from benchmarks.tables import ali, pets, report, reviews
from benchmarks.tables.tasks import TEXT_TASKS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--teacher", type=Path, help="folder of a pretrained BERT-style encoder (MiniLM)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument(
        "--only", help="comma-separated: " + ", ".join([*TEXT_TASKS, "mnist", "pets", "reviews", "extras"])
    )
    parser.add_argument("--models", default="ali,minilm")
    parser.add_argument("--quick", action="store_true", help="a few examples each: minutes on two cores")
    parser.add_argument("--report", action="store_true", help="only write docs/results.md from the result files")
    options = parser.parse_args()
    if not options.report:
        run(options)
    if options.report or not options.quick:
        figures = Path("docs/figures")
        figures.mkdir(parents=True, exist_ok=True)
        if (options.out / "pets.png").exists():
            shutil.copy(options.out / "pets.png", figures / "pets.png")
        report.write(options.out, Path("docs/results.md"))


def run(options: argparse.Namespace) -> None:
    chosen = options.only.split(",") if options.only else [*TEXT_TASKS, "mnist", "pets", "reviews", "extras"]
    for name in chosen:
        start = time.time()
        try:
            if name in TEXT_TASKS:
                for kind in options.models.split(","):
                    ali.run_task(name, kind, options.data, options.teacher, options.out, quick=options.quick)
            elif name == "mnist":
                ali.run_mnist(options.data, options.out, quick=options.quick)
            elif name == "pets":
                pets.run_pets(options.data, options.out, quick=options.quick)
            elif name == "reviews":
                reviews.run_reviews(options.data, options.teacher, options.out, quick=options.quick)
            elif name == "extras":
                reviews.run_sst2_extras(options.data, options.teacher, options.out, quick=options.quick)
        except Exception:  # one table must not cost the others
            traceback.print_exc()
        print(f"== {name}: {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
