"""The local executor: one process for each device of this machine."""

from __future__ import annotations

import pickle
import queue
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import IO, Any

import torch

from whence.errors import InputError, ModelError
from whence.models.adapter import AbstractAdapter
from whence.models.from_files import AUTO
from whence.models.inspecting import is_spread
from whence.runner.attempts import died_again, notes
from whence.runner.encoding import DiedError, channels, child, receive, send
from whence.runner.manifest import ShardReport
from whence.runner.plan import Shard
from whence.runner.window import message_of
from whence.runner.work import Job, explain_shards

__all__ = ["LocalExecutor"]

IN_FLIGHT = 2
"""Shards a process has at a time: the one it works on and the one it encodes meanwhile."""
TRIES = 3
"""Processes in a row that die before they have loaded the model."""


@dataclass(frozen=True)
class LocalExecutor:
    """Explains shards here: in this process with one worker, in a process for each with several."""

    workers: int | None = None
    """Default: one for each CUDA device, and one on the CPU, where torch has threads of its own; see `devices`."""

    def run(
        self, job: Job, adapter: AbstractAdapter, shards: Iterable[Shard], progress: Callable[[int], None]
    ) -> Iterator[ShardReport]:
        """Reports of shards as they are finished."""
        devices = self.devices(job, adapter)
        # Where processes died again and again, the rest is done in one that may die without us.
        if len(devices) == 1 and not (isinstance(job.model, str) and any(map(died_again, notes(job.out)))):
            yield from explain_shards(job, adapter, shards, progress)
            return
        yield from _Crew(replace(job, crew=len(devices)), shards).reports(devices, progress)

    def devices(self, job: Job, adapter: AbstractAdapter) -> list[str | None]:
        """Where each worker computes; None is where the model is loaded to by itself.

        All CUDA devices, each a worker, unless the user named one of them, or the model is spread over them already.
        """
        if adapter.device.type != "cuda" or is_spread(adapter.module):
            return [None] * (self.workers or 1)
        asked = job.model_options.get("device")
        named = torch.device(asked).index if asked not in (None, AUTO) else None
        known = list(range(torch.cuda.device_count())) if named is None else [named]
        count = self.workers or (len(known) if isinstance(job.model, str) else 1)
        return [f"cuda:{known[n % len(known)]}" for n in range(count)]


class _Crew:
    """Shards handed to processes as these come free. One that dies is replaced, and its shards are handed out again."""

    def __init__(self, job: Job, shards: Iterable[Shard]):
        try:
            self.packed = pickle.dumps(job)
        except Exception as error:
            raise InputError(
                f"several processes need a model, method and target that can be pickled ({error}). "
                "Pass the model by name and no lambda as target, or workers=1."
            ) from None
        self.threads = job.plan.threads
        self.source, self.again, self.lock = iter(shards), list[Shard](), threading.Lock()
        self.finished: queue.Queue[Any] = queue.Queue()
        self.live: set[subprocess.Popen[bytes]] = set()
        self.is_over = False

    def reports(self, devices: list[Any], progress: Callable[[int], None]) -> Iterator[ShardReport]:
        for device in devices:
            threading.Thread(target=self._manned, args=(device,), daemon=True).start()
        running = len(devices)
        try:
            while running:
                item = self.finished.get()
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    running -= 1
                elif isinstance(item, int):
                    progress(item)
                else:
                    yield item
        finally:
            with self.lock:
                self.is_over = True
                for process in self.live:
                    process.kill()

    def _next(self) -> Shard | None:
        with self.lock:
            return self.again.pop() if self.again else next(self.source, None)

    def _manned(self, device: Any) -> None:
        """One process after the other, until there are no more shards."""
        stillborn = 0
        try:
            while stillborn < TRIES:
                hand = _Hand(self._next, self.finished.put)
                with child("whence.runner.local", threads=self.threads) as process:
                    with self.lock:
                        if self.is_over:
                            return
                        self.live.add(process)
                    try:
                        hand.work(process, self.packed, device)
                        self.finished.put(None)
                        return
                    except DiedError:
                        self.finished.put(-hand.told)
                        stillborn = 0 if hand.is_up else stillborn + 1
                    finally:
                        with self.lock:
                            self.live.discard(process)
                            self.again += hand.held
            raise ModelError(f"a worker process died {TRIES} times before it had loaded the model: out of memory?")
        except BaseException as error:
            self.finished.put(error)


@dataclass
class _Hand:
    """Feeds one process and hands on what it reports."""

    take: Callable[[], Shard | None]
    give: Callable[[ShardReport | int], None]
    """Takes reports, and how many rows more are explained."""
    held: list[Shard] = field(default_factory=list)
    """Shards that the process has and has not reported."""
    told: int = 0
    """Rows that the process has explained and not reported."""
    is_up: bool = False

    def work(self, process: Any, packed: bytes, device: Any) -> None:
        """Until there are no more shards."""
        send(process.stdin, packed)
        send(process.stdin, device)
        self.is_up = _answer(process)
        more = True
        while more or self.held:
            while more and len(self.held) < IN_FLIGHT:
                shard = self.take()
                if shard is None:
                    more = False
                    process.stdin.close()
                else:
                    self.held.append(shard)
                    send(process.stdin, shard)
            if self.held:
                found = _answer(process)
                self.give(found)
                if isinstance(found, int):
                    self.told += found
                else:
                    self.told -= found.rows
                    self.held = [shard for shard in self.held if shard.number != found.shard]


def _answer(process: Any) -> Any:
    found = receive(process.stdout)
    if isinstance(found, BaseException):
        raise found
    return found


def serve() -> None:
    """A worker process: a job, a device, then shards until the input ends. It sends numbers of rows, and reports."""
    source, sink = channels()
    try:
        job, device = pickle.load(source), pickle.load(source)
        adapter = job.load(device)
        send(sink, True)
        for report in explain_shards(job, adapter, _received(source), lambda rows: send(sink, rows)):
            send(sink, report)
    except Exception as error:
        send(sink, _portable(error))


def _portable(error: Exception) -> Exception:
    """An error that another process can read: some can't be pickled, and some only one way."""
    try:
        return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]
    except Exception:
        return ModelError(message_of(error))


def _received(source: IO[bytes]) -> Iterator[Shard]:
    while True:
        try:
            yield pickle.load(source)
        except EOFError:
            return
