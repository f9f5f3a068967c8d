"""The local executor: one process for each device of this machine."""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import torch

from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.runner.encoding import channels, child, receive, send
from whence.runner.manifest import ShardReport
from whence.runner.plan import Shard
from whence.runner.work import Job, explain_shards

__all__ = ["LocalExecutor"]

IN_FLIGHT = 2
"""Shards a process has at a time: the one it works on and the one it encodes meanwhile."""


@dataclass(frozen=True)
class LocalExecutor:
    """Explains shards here: in this process with one worker, in a process for each with several."""

    workers: int | None = None
    """Default: one for each CUDA device, and one on the CPU, where torch has threads of its own."""

    def run(
        self, job: Job, adapter: AbstractAdapter, shards: Iterable[Shard], progress: Callable[[int], None]
    ) -> Iterator[ShardReport]:
        """Reports of shards as they are finished."""
        cuda = torch.cuda.device_count() if adapter.device.type == "cuda" else 0
        count = self.workers or (cuda or 1 if isinstance(job.model, str) else 1)
        if count == 1:
            yield from explain_shards(job, adapter, shards, progress)
            return
        devices = [f"cuda:{n % cuda}" for n in range(count)] if cuda else [None] * count
        yield from _spread(job, devices, shards, progress)


def _spread(
    job: Job, devices: list[Any], shards: Iterable[Shard], progress: Callable[[int], None]
) -> Iterator[ShardReport]:
    """Shards handed to processes as these come free."""
    try:
        packed = pickle.dumps(job)
    except Exception as error:
        raise InputError(
            f"several processes need a model, method and target that can be pickled ({error}). "
            "Pass the model by name and no lambda as target, or workers=1."
        ) from None
    source, lock = iter(shards), threading.Lock()
    finished: queue.Queue[Any] = queue.Queue()

    def drive(process: Any, device: Any) -> None:
        try:
            _drive(process, packed, device, source, lock, finished)
            finished.put(None)
        except BaseException as error:
            finished.put(error)

    with ExitStack() as stack:
        for device in devices:
            process = stack.enter_context(child("whence.runner.local", threads=job.plan.threads))
            threading.Thread(target=drive, args=(process, device), daemon=True).start()
        running = len(devices)
        while running:
            item = finished.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
                continue
            yield item
            progress(item.rows)


def _drive(
    process: Any, packed: bytes, device: Any, source: Iterator[Shard], lock: Any, finished: queue.Queue[Any]
) -> None:
    """Feed one process and collect what it reports, until there are no more shards."""
    send(process.stdin, packed)
    send(process.stdin, device)
    in_flight, more = 0, True
    while more or in_flight:
        while more and in_flight < IN_FLIGHT:
            with lock:
                shard = next(source, None)
            if shard is None:
                more = False
                process.stdin.close()
                break
            send(process.stdin, shard)
            in_flight += 1
        if in_flight:
            report = receive(process.stdout)
            if isinstance(report, BaseException):
                raise report
            in_flight -= 1
            finished.put(report)


def serve() -> None:
    """A worker process: a job, a device, then shards until the input ends."""
    source, sink = channels()
    job, device = pickle.load(source), pickle.load(source)
    try:
        for report in explain_shards(job, job.load(device), _received(source)):
            send(sink, report)
    except Exception as error:
        send(sink, error)


def _received(source: IO[bytes]) -> Iterator[Shard]:
    while True:
        try:
            yield pickle.load(source)
        except EOFError:
            return
