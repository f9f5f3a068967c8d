"""The global picture of a run: influential words, conservation, slow and failed rows. Reads the shards once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from whence.results.percents import percent
from whence.runner.meter import duration
from whence.runner.show import opened, tables
from whence.viz.terminal import printable

__all__ = ["Influence", "Summary", "summary"]

COLUMNS = ["row", "id", "tokens", "scores", "word", "target", "prediction", "target_score", "receipt_error", "error"]
EDGES = (1e-6, 1e-5, 1e-4, 1e-3)
"""Relative errors of conservation that are counted."""
VOCABULARY = 200_000
"""Words that are kept; beyond that the rarest are dropped, so memory stays flat on any amount of text."""
EXAMPLES = 10
FEW = 100
"""Rows below which every word counts."""


class Influence(NamedTuple):
    """A word, how often it was there, and its mean score for the target of its rows."""

    word: str
    times: int
    mean: float


@dataclass(frozen=True)
class Summary:
    """What a run found."""

    out: Path
    complete: bool
    rows: int
    failed: int
    tokens: int
    seconds: float
    """Time of the model, all workers together."""
    predictions: dict[str, int]
    words: list[Influence]
    """Strongest by mean size of score, whatever the target."""
    by_class: dict[str, list[Influence]]
    """Strongest for each target."""
    conserved: dict[str, float]
    """Share of rows whose relative error is below each edge; `max` and `mean` of the relative error."""
    slowest: list[tuple[int, float, int]]
    """(row, seconds, tokens); a batch's time is shared by its rows."""
    errors: dict[str, int]
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    """The first few failed rows: (row, id, error)."""
    min_count: int = 1

    def __str__(self) -> str:
        return "\n".join(printable(line, keep="\n") for line in self._lines())

    def _lines(self) -> Iterator[str]:
        rate = f", {self.rows / self.seconds:.1f} rows/s of model time" if self.seconds else ""
        yield f"{self.rows} rows, {self.failed} failed, {self.tokens} tokens{rate}" + (
            "" if self.complete else " (not complete: type the same whence run again to go on)"
        )
        yield "predictions   " + "   ".join(f"{k}: {v}" for k, v in self.predictions.items())
        yield ""
        often = f", words seen at least {self.min_count} times" if self.min_count > 1 else ""
        yield f"most influential words (mean size of score{often})"
        yield from _listed(self.words)
        for name, words in self.by_class.items():
            yield f"\nfor {name}"
            yield from _listed(words)
        if self.conserved:
            shares = "   ".join(f"{percent(self.conserved[f'{e:g}'], 1)} within {e:g}" for e in EDGES)
            yield f"\nconservation (relative error)   {shares}   max {self.conserved['max']:.1e}"
        if self.slowest:
            yield "\nslowest rows"
            yield from (f"  row {row}   {duration_ms(s)}   {tokens} tokens" for row, s, tokens in self.slowest)
        if self.errors:
            yield "\nfailed rows"
            yield from (f"  {count} ×  {error}" for error, count in self.errors.items())
            yield from (f"  row {row} (id {name}): {error}" for row, name, error in self.failures)


def duration_ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else duration(seconds)


def _listed(words: list[Influence]) -> Iterator[str]:
    yield from (f"  {w.mean:+.4f}  {w.word}  ({w.times} ×)" for w in words)


class _Words:
    """Sums of scores by word. [count, sum, sum of sizes]"""

    def __init__(self) -> None:
        self.table: dict[str, list[float]] = {}

    def add(self, word: str, score: float) -> None:
        entry = self.table.setdefault(word, [0, 0.0, 0.0])
        entry[0] += 1
        entry[1] += score
        entry[2] += abs(score)
        if len(self.table) > VOCABULARY:
            typical = sorted(e[0] for e in self.table.values())[VOCABULARY // 2]
            self.table = {w: e for w, e in self.table.items() if e[0] > typical}

    def best(self, n: int, least: int, *, by_size: bool) -> list[Influence]:
        kept = [(w, int(e[0]), e[2 if by_size else 1] / e[0]) for w, e in self.table.items() if e[0] >= least]
        return [Influence(*entry) for entry in sorted(kept, key=lambda entry: (-entry[2], entry[0]))[:n]]


def words_of(tokens: list[str], scores: list[float], word: list[int | None]) -> Iterator[tuple[str, float]]:
    """Words in lower case without punctuation at their ends, with the sum of their tokens' scores.

    >>> list(words_of(["[CLS]", "A", "gem", "s", "!"], [0.0, 1.0, 2.0, 3.0, 4.0], [None, 0, 1, 1, 1]))
    [('a', 1.0), ('gems', 9.0)]
    """
    groups: dict[int, list[int]] = defaultdict(list)
    for i, owner in enumerate(word):
        if owner is not None:
            groups[owner].append(i)
    for members in groups.values():
        text = "".join(tokens[i].strip() for i in members).lower()
        stripped = text.strip(".,;:!?\"'()[]{}`´…–—-")
        if stripped:
            yield stripped, sum(scores[i] for i in members)


def summary(out: str | Path, *, top: int = 15, min_count: int | None = None) -> Summary:
    """Summarise the run in `out`. Words that are rarer than `min_count` (default: one in 2,000 rows, at least 3; 1 for
    fewer than 100 rows) are left out: the mean of a word seen once is that one sentence."""
    manifest, journal = opened(out)
    least = min_count or (max(3, journal.rows // 2000) if journal.rows >= FEW else 1)
    gathered = _Gathered()
    for table in tables(out, COLUMNS):
        for record in table.to_pylist():
            gathered.add(record)
    slow = sorted((entry for r in journal.done.values() for entry in r.slowest), key=lambda e: -e[1])
    return Summary(
        out=Path(out),
        complete=manifest.complete,
        rows=journal.rows,
        failed=journal.failed,
        tokens=sum(r.tokens for r in journal.done.values()),
        seconds=sum(r.seconds for r in journal.done.values()),
        predictions=dict(gathered.predictions.most_common(10)),
        words=gathered.all.best(top, least, by_size=True),
        by_class={
            name: gathered.by_class[name].best(top, least, by_size=False)
            for name, _ in gathered.targets.most_common(10)
        },
        conserved=gathered.conserved(),
        slowest=[(int(row), seconds, int(tokens)) for row, seconds, tokens in slow[:EXAMPLES]],
        errors=dict(gathered.errors.most_common(EXAMPLES)),
        failures=gathered.failures,
        min_count=least,
    )


class _Gathered:
    """Sums over records."""

    def __init__(self) -> None:
        self.all, self.by_class = _Words(), defaultdict[str, _Words](_Words)
        self.predictions: Counter[str] = Counter()
        self.targets: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.failures: list[tuple[int, str, str]] = []
        self.below = [0] * len(EDGES)
        self.booked, self.worst, self.sum = 0, 0.0, 0.0

    def add(self, record: dict[str, Any]) -> None:
        if record["error"] is not None:
            self.errors[record["error"][:120]] += 1
            if len(self.failures) < EXAMPLES:
                self.failures.append((record["row"], record["id"], record["error"][:200]))
            return
        self.predictions[record["prediction"] or ""] += 1
        target = record["target"] or ""
        self.targets[target] += 1
        if record["tokens"] and record["word"]:
            for word, score in words_of(record["tokens"], record["scores"], record["word"]):
                self.all.add(word, score)
                self.by_class[target].add(word, score)
        if record["receipt_error"] is not None:
            self._book(abs(record["receipt_error"]) / max(abs(record["target_score"]), 1e-12))

    def _book(self, relative: float) -> None:
        self.booked += 1
        self.sum += relative
        self.worst = max(self.worst, relative)
        for n, edge in enumerate(EDGES):
            self.below[n] += relative < edge

    def conserved(self) -> dict[str, float]:
        if not self.booked:
            return {}
        shares = {f"{edge:g}": n / self.booked for edge, n in zip(EDGES, self.below, strict=True)}
        return {**shares, "mean": self.sum / self.booked, "max": self.worst}
