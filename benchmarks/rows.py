"""Texts for the benchmarks of data set runs: SST-2 where it is at hand, sentences of such lengths where it is not."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

__all__ = ["made_up", "sst2"]

WORDS = (
    "a the an of with and not never very too this that it film movie story actors plot gorgeous witty dull mess gem "
    "slow brilliant tedious charming boring fine funny sad moving flat fresh stale clever empty warm cold"
).split()


def sst2(folder: Path, *splits: str) -> list[str]:
    """Sentences of SST-2: files split.tsv.gz with the columns label and sentence."""
    found: list[str] = []
    for split in splits:
        with gzip.open(folder / f"{split}.tsv.gz", "rt", encoding="utf-8") as file:
            found += [line.rstrip("\n").split("\t", 1)[1] for line in file]
    return found


def made_up(count: int, longest: int = 36) -> list[str]:
    """Sentences of 1 to `longest` words, always the same."""
    chance = random.Random(0)
    return [" ".join(chance.choice(WORDS) for _ in range(chance.randint(1, longest))) for _ in range(count)]
