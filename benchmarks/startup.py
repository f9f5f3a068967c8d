"""Where the time goes before `whence run` has its first rows: `python -m benchmarks.startup`.

Processor time beside time by the clock: on a machine with other work, only the first says what the run itself takes.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

ROWS = 20_000
BEGUN = time.perf_counter(), time.process_time()


class Enough(Exception):
    """The first rows are there."""


def said(what: str) -> None:
    print(f"| {what} | {time.process_time() - BEGUN[1]:.1f} | {time.perf_counter() - BEGUN[0]:.1f} |", flush=True)


def after(module: Any, name: str, what: str) -> None:
    """Say so whenever a function has returned."""
    real = getattr(module, name)

    def call(*arguments: Any, **options: Any) -> Any:
        found = real(*arguments, **options)
        said(what)
        return found

    setattr(module, name, call)


def main() -> None:
    print("| after | processor, s | clock, s |\n|---|---|---|")
    import whence
    from whence.runner import launch

    said("import whence")
    after(launch, "load", "the model is loaded")
    after(launch, "_sample", "digests; a sample is read")
    after(launch, "suggested", "the batch is measured")

    def first(done: int, total: int | None, rate: float) -> None:
        said(f"the first {done:,} rows")
        raise Enough

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.txt"
        data.write_text("".join(f"a gorgeous, witty, seductive movie, number {n}\n" for n in range(ROWS)))
        try:
            whence.run(data, model="sentiment", out=Path(folder) / "out", progress=first)
        except Enough:
            return


if __name__ == "__main__":
    main()
