"""Rows and ways to read what a run wrote."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

pq = pytest.importorskip("pyarrow.parquet", reason="runs need pyarrow: pip install 'whence-xai[data]'")

PATIENCE = 120
"""Seconds after which a test gives up; none is spent where all is well."""
WORDS = "a gorgeous witty dull movie mess gem film slow brilliant not tedious charming boring fine".split()


def sentences(count: int, longest: int = 6) -> list[str]:
    """Short texts, always the same; every fiftieth is empty."""
    chance = random.Random(1)
    made = [" ".join(chance.choice(WORDS) for _ in range(chance.randint(1, longest))) for _ in range(count)]
    return ["" if n % 50 == 7 else text for n, text in enumerate(made)]


def records(out: Path) -> list[dict]:
    """All rows of a run, as any reader of Parquet folders sees them."""
    return pq.read_table(out).to_pylist()


def files(out: Path) -> dict[str, bytes]:
    """The shards, byte for byte."""
    return {p.name: p.read_bytes() for p in sorted(out.glob("*.parquet"))}


@pytest.fixture
def reviews(tmp_path) -> Path:
    path = tmp_path / "reviews.jsonl"
    lines = [json.dumps({"review": t, "name": f"r{n}", "label": n % 2}) for n, t in enumerate(sentences(60))]
    path.write_text("\n".join(lines) + "\n")
    return path


def in_a_process(work: Callable[[], object], errors: Path | None = None) -> int:
    """Do the work in a process of its own that shares nothing but files; how it ended, as `waitpid` says."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)  # `waitpid` has no limit of its own
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
        try:
            # torch makes its pool anew behind a fork, and two threads that ask for it at once find none
            torch.set_num_threads(torch.get_num_threads())
            if errors is not None:
                os.dup2(os.open(errors, os.O_CREAT | os.O_WRONLY), 2)
                sys.stderr = os.fdopen(2, "w", closefd=False)
            work()
            os._exit(0)
        except KeyboardInterrupt:
            sys.stderr.flush()
            os._exit(130)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitpid(child, 0)[1]


def wait_until(is_so: Callable[[], object]) -> None:
    """Look every few milliseconds; the test fails if it never is."""
    for _ in range(PATIENCE * 100):
        if is_so():
            return
        threading.Event().wait(0.01)
    pytest.fail(f"not so after {PATIENCE} s")
