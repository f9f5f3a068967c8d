"""Rows and ways to read what a run wrote."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pq = pytest.importorskip("pyarrow.parquet", reason="runs need pyarrow: pip install 'whence-xai[data]'")

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
