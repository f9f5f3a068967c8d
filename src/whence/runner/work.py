"""Shards through encoder, model and writer: what every process of every executor does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import torch

from whence.data.rows import Row
from whence.errors import InputError, ModelError
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.loading import load
from whence.runner.attempts import Attempt
from whence.runner.encoding import ahead, encoder
from whence.runner.manifest import ShardReport
from whence.runner.plan import Plan, Shard, difference, digest_of, weights_digests
from whence.runner.shards import ShardWriter
from whence.runner.window import Encoded, Result, WindowExplainer

__all__ = ["Job", "explain_shards"]

SLOWEST = 5
TELLING = 8
"""A first shard of at least this many encoded rows that all fail says that the model or the options are wrong."""

SELDOM = 50_000
"""New objects after which Python looks for garbage; a row has about a hundred."""
TURN = 0.0002
"""Seconds that a thread may keep others waiting; Python's own 0.005 is as long as a batch takes on a GPU."""


@dataclass(frozen=True)
class Job:
    """All that a process needs to explain shards."""

    model: Any
    """A name, or a loaded model."""
    method: AbstractMethod
    plan: Plan
    out: Path
    target: Any = None
    model_options: dict[str, Any] = field(default_factory=dict)
    encoding: dict[str, Any] = field(default_factory=dict)
    special_tokens: bool = True
    strict: bool = False
    encode_in_process: bool = True
    crew: int = 1
    """Processes of this machine that explain side by side."""
    weights: dict[str, str] = field(default_factory=dict)
    """Digests of the weights that the run began with."""
    token: str = ""
    """Tells this call of `run` from others."""

    def load(self, device: str | None = None) -> AbstractAdapter:
        """The model, on a device."""
        if isinstance(self.model, AbstractAdapter):
            if device is not None:
                self.model.module.to(device)
            return load(self.model)
        adapter = load(self.model, **{**self.model_options, **({"device": device} if device else {})})
        changed = difference(self.weights, weights_digests(adapter)) if self.weights else []
        if changed:
            raise ModelError(f"the weights of {self.model!r} changed after the run began: {changed[0]}")
        return adapter

    def explainer(self, adapter: AbstractAdapter) -> WindowExplainer:
        return WindowExplainer(
            adapter, self.method, self.target, self.plan.batch_tokens, self.plan.scores, self.special_tokens
        )


class Window(NamedTuple):
    """A part of a shard."""

    shard: Shard
    attempt: Attempt
    rows: list[Row]
    is_last: bool


def explain_shards(
    job: Job,
    adapter: AbstractAdapter,
    shards: Iterable[Shard],
    progress: Callable[[int], None] = lambda rows: None,
) -> Iterator[ShardReport]:
    """Explain and write shards, one after the other; the next rows are encoded while the model works.

    `progress` is told of rows when they are explained, which is before their shard is safe.
    """
    explainer = job.explainer(adapter)
    with (
        _threads(job.plan.threads),
        _settled(),
        encoder(adapter, job.encoding, process=job.encode_in_process, crew=job.crew) as encode,
    ):
        yield from _Work(job, explainer, encode).reports(shards, progress)


@dataclass
class _Work:
    """The way of windows from the encoder over the model to the writer."""

    job: Job
    explainer: WindowExplainer
    encode: Callable[[list[Row]], list[Encoded]]
    begun: dict[int, Attempt] = field(default_factory=dict)
    free: Event = field(default_factory=Event)
    """Not set while a shard is explained with care: were others encoded meanwhile, they could be what kills it."""

    def reports(self, shards: Iterable[Shard], progress: Callable[[int], None]) -> Iterator[ShardReport]:
        self.free.set()
        encoded = ahead(self._encoded(shards))
        try:
            with closing(encoded):  # type: ignore[type-var]
                try:
                    yield from self._written(encoded, progress)
                finally:
                    self.free.set()
        finally:
            for attempt in list(self.begun.values()):
                attempt.end()

    def _encoded(self, shards: Iterable[Shard]) -> Iterator[tuple[Window, list[Encoded] | None]]:
        for shard in shards:
            self.free.wait()
            attempt = self.begun[shard.number] = Attempt.begin(self.job.out, shard, self.job.token)
            if attempt.is_careful:
                self.free.clear()
            parts = self.job.plan.windows(shard.rows)
            for n, part in enumerate(parts, 1):
                window = Window(shard, attempt, part, n == len(parts))
                yield window, None if attempt.is_careful else self.encode(part)

    def _written(
        self, encoded: Iterator[tuple[Window, list[Encoded] | None]], progress: Callable[[int], None]
    ) -> Iterator[ShardReport]:
        """A window is written while the next one of its shard is explained: a GPU does not wait for files."""
        output = _Output(self.job, self._is_over)
        stored: Future[ShardReport | None] | None = None
        try:
            with ThreadPoolExecutor(1, "whence-write") as writing:
                for window, examples in encoded:
                    if examples is None:
                        explained = self._with_care(window, progress)
                    else:
                        explained = self.explainer.explained(window.rows, examples, progress)
                    if stored is not None:
                        stored.result()
                    stored = writing.submit(output.store, window, explained)
                    if window.is_last and (report := stored.result()) is not None:
                        yield report
        finally:
            output.discard()

    def _is_over(self, window: Window) -> None:
        """The last of its shard is written."""
        self.begun.pop(window.shard.number).end()
        if window.attempt.is_careful:  # else one that comes next may be under way already
            self.free.set()

    def _with_care(self, window: Window, progress: Callable[[int], None]) -> Callable[[], list[Result]]:
        """A window of a shard on which a process died: what is about to be done is noted first."""
        attempt, first = window.attempt, window.rows[0].number
        rows = [replace(row, error=row.error or attempt.reason(row)) for row in window.rows]
        if first in attempt.suspects:
            for row in rows:
                if row.error is None:
                    attempt.note(first, row.number)
                    self.explainer.window([row], self.encode([row]))
        attempt.note(first)
        return self.explainer.explained(rows, self.encode(rows), progress)


def _refuse_failed(results: list[Result]) -> None:
    for result in results:
        if result.error is not None:
            raise InputError(f"row {result.row} (id {result.id}): {result.error}. Without --strict, it is passed over.")


class _Tally:
    """Counts over the windows of a shard."""

    def __init__(self) -> None:
        self.rows = self.failed = self.tokens = self.reached = self.fell = 0
        self.seconds = 0.0
        self.slowest: list[list[float]] = []
        self.first_error = ""

    def add(self, results: list[Result]) -> None:
        for r in results:
            self.rows += 1
            self.failed += r.error is not None
            self.tokens += r.length
            self.seconds += r.seconds
            self.reached += r.length > 0
            if r.error is not None and r.length > 0:
                self.fell += 1
                self.first_error = self.first_error or f"row {r.row}: {r.error}"
        fresh = [[r.row, round(r.seconds, 6), r.length] for r in results if r.length]
        self.slowest = sorted(self.slowest + fresh, key=lambda entry: -entry[1])[:SLOWEST]

    def check(self, shard: Shard) -> None:
        """A first shard in which nothing could be explained is no matter of single rows."""
        if shard.number == 0 and self.reached >= TELLING and self.fell == self.reached:
            raise ModelError(f"none of the first {self.reached} rows could be explained. {self.first_error}")

    def report(self, shard: Shard, size: int, digest: str) -> ShardReport:
        return ShardReport(
            shard=shard.number,
            start=shard.start,
            rows=self.rows,
            failed=self.failed,
            tokens=self.tokens,
            file=shard.file,
            bytes=size,
            seconds=round(self.seconds, 3),
            digest=digest,
            input=digest_of(shard.rows),
            slowest=self.slowest,
        )


@dataclass
class _Output:
    """The file of the shard that is written, and its counts."""

    job: Job
    over: Callable[[Window], None]
    """Told of the last window of a shard."""
    writer: ShardWriter | None = None
    tally: _Tally = field(default_factory=_Tally)

    def store(self, window: Window, explained: Callable[[], list[Result]]) -> ShardReport | None:
        """Append a window; of the last one of a shard the report, once all of it is safe."""
        results = explained()
        self.writer = self.writer or ShardWriter(self.job.out / window.shard.file, self.job.plan.scores)
        if self.job.strict:
            _refuse_failed(results)
        self.tally.add(results)
        self.writer.write(results)
        if not window.is_last:
            return None
        self.tally.check(window.shard)
        size, digest = self.writer.commit()
        tally, self.writer, self.tally = self.tally, None, _Tally()
        self.over(window)
        return tally.report(window.shard, size, digest)

    def discard(self) -> None:
        """Leave no half of a shard."""
        if self.writer is not None:
            self.writer.discard()
            self.writer = None


@contextmanager
def _settled() -> Iterator[None]:
    """What is in memory before the work begins stays, and rows are no garbage: Python need not look through them all
    the time. And threads take turns often: one that waits for its turn may have a GPU to feed.
    """
    often, turn = gc.get_threshold(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM, *often[1:])
    sys.setswitchinterval(TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(turn)
        gc.set_threshold(*often)
        gc.unfreeze()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """As many threads of torch as the plan says, for the time of the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
