"""The Ray executor: an actor for each device of a cluster.

Actors come and go: one that dies, with its process or with its machine, is replaced as soon as there is room, and its
shards are handed to whoever is free. A shard appears under its name only when it is whole, so a shard that is done
twice is the same file. The output folder must be one that all machines see.

What travels: rows to actors, a report of some hundred bytes back. Results never do.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import Any

from whence.errors import InputError, ModelError
from whence.extras import need
from whence.models.adapter import AbstractAdapter
from whence.runner.local import IN_FLIGHT, TRIES
from whence.runner.manifest import Manifest, ShardReport
from whence.runner.plan import Shard
from whence.runner.work import Job, explain_shards

__all__ = ["RayExecutor", "Worker"]

SAID = 400
"""Letters of an error of Ray's, which has the reason at its end."""
QUIET = 30.0
"""Seconds without a worker after which it is said that the run waits for one."""


class Worker:
    """Lives in an actor: loads the model once, explains shards."""

    def __init__(self, job: Job, on_gpu: bool, folder: str):
        self.job, self.on_gpu = job, on_gpu
        with suppress(OSError):  # names of files may begin there; another machine need not have it
            os.chdir(folder)

    def up(self) -> int:
        """Load the model; the number of the process."""
        if Manifest.read(self.job.out) is None:
            raise InputError(
                f"{str(self.job.out)!r} is not the same folder on {socket.gethostname()}: with --executor ray, --out "
                "is a folder that all machines of the cluster see, such as one on NFS"
            )
        self.adapter = self.job.load("cuda" if self.on_gpu else None)
        return os.getpid()

    def explain(self, shard: Shard) -> ShardReport:
        return next(explain_shards(self.job, self.adapter, iter([shard])))


@dataclass(frozen=True)
class RayExecutor:
    """Explains shards on Ray: a cluster that is connected already, that RAY_ADDRESS names, or this machine."""

    workers: int | None = None
    """Default: as many as the cluster has room for now. More wait for room, which makes an autoscaler add machines."""
    cpus: float | None = None
    """Of each worker, also a part of one. Default: as many as torch has threads; 1 with a GPU."""
    gpus: float | None = None
    """Of each worker. Default: 1 if the model is on a GPU here, else none. 0.5 lets two share one."""

    def run(
        self, job: Job, adapter: AbstractAdapter, shards: Iterable[Shard], progress: Callable[[int], None]
    ) -> Iterator[ShardReport]:
        """Reports of shards as they are finished."""
        ray = need("ray", "ray", "--executor ray")
        with _connected(ray):
            # Tokenising in a thread: an actor may use no more cores than it asked for.
            job = replace(job, encode_in_process=False)
            # A small job travels with each actor; a model in memory is put once for all, under a reference that has to
            # live as long as they do.
            packed = job if isinstance(job.model, str) else ray.put(job)
            needs = self.needs(job, adapter)
            actor = ray.remote(**needs, scheduling_strategy="SPREAD")(Worker)
            folder, on_gpu = os.getcwd(), needs["num_gpus"] > 0
            fleet = _Fleet(ray, lambda: actor.remote(packed, on_gpu, folder), iter(shards), needs)
            try:
                for report in fleet.reports(self.workers or room(needs, ray.cluster_resources())):
                    yield report
                    progress(report.rows)
            finally:
                fleet.end()

    def needs(self, job: Job, adapter: AbstractAdapter) -> dict[str, float]:
        """What a worker takes of the cluster."""
        gpus = self.gpus if self.gpus is not None else float(adapter.device.type == "cuda")
        cpus = self.cpus if self.cpus is not None else 1 if gpus else job.plan.threads
        return {"num_cpus": cpus, "num_gpus": gpus}


@contextmanager
def _connected(ray: Any) -> Iterator[None]:
    """With Ray: as it is connected already, or started for the time being."""
    if ray.is_initialized():
        yield
        return
    with TemporaryDirectory(ignore_cleanup_errors=True) as empty:
        # Ray puts the folder in which it is started first on the path of its workers, and data may lie there. Who works
        # with modules in it has it on the path already.
        here = os.getcwd()
        begun_in = here if here in map(os.path.abspath, sys.path) else empty
        with chdir(begun_in):
            ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        try:
            yield
        finally:
            ray.shutdown()


def room(needs: dict[str, float], have: dict[str, float]) -> int:
    """Workers that a cluster has room for, at least one.

    >>> room({"num_cpus": 0.5, "num_gpus": 0}, {"CPU": 4.0})
    8
    >>> room({"num_cpus": 1, "num_gpus": 1}, {"CPU": 64.0, "GPU": 8.0})
    8
    """
    wanted = {"CPU": needs["num_cpus"], "GPU": needs["num_gpus"]}
    return max(1, int(min((have.get(name, 0) / each for name, each in wanted.items() if each), default=1)))


@dataclass(eq=False)
class _Member:
    """An actor and what it has been given."""

    actor: Any
    stillborn: int = 0
    """Actors in its place, one after the other, that died before they had loaded the model."""
    is_up: bool = False
    is_dead: bool = False
    held: int = 0


@dataclass
class _Fleet:
    """Shards handed to actors as these come free."""

    ray: Any
    make: Callable[[], Any]
    shards: Iterator[Shard]
    needs: dict[str, float]
    members: list[_Member] = field(default_factory=list)
    waiting: dict[Any, tuple[_Member, Shard | None]] = field(default_factory=dict)
    """What was asked of whom: to explain a shard, or to come up."""
    again: list[Shard] = field(default_factory=list)
    """Shards whose actor died."""
    has_more: bool = True

    def reports(self, workers: int) -> Iterator[ShardReport]:
        for _ in range(workers):
            self._hire(0)
        told = False
        while self.has_more or self.again or any(shard for _, shard in self.waiting.values()):
            ready, _ = self.ray.wait(list(self.waiting), num_returns=1, timeout=QUIET)
            if not (ready or told or any(member.is_up for member in self.members)):
                told = True
                takes = f"{self.needs['num_cpus']:g} CPUs and {self.needs['num_gpus']:g} GPUs"
                print(f"waiting for the cluster: it has no room for a worker of {takes} yet", file=sys.stderr)
            for reference in ready:
                report = self._answer(reference)
                if report is not None:
                    yield report
            self._feed()

    def _answer(self, reference: Any) -> ShardReport | None:
        """What an actor answered; None if it only came up, or died."""
        member, shard = self.waiting.pop(reference)
        member.held -= shard is not None
        try:
            found = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:  # the actor, its process, its machine or the way to it is gone
            if shard is not None:
                self.again.append(shard)
            self._replace(member, error)
            return None
        if shard is None:
            member.is_up, member.stillborn = True, 0
            return None
        return found  # type: ignore[no-any-return]

    def _hire(self, stillborn: int) -> None:
        member = _Member(self.make(), stillborn)
        self.members.append(member)
        self.waiting[member.actor.up.remote()] = member, None

    def _replace(self, member: _Member, error: Exception) -> None:
        """Once for each death, however many shards it had."""
        if member.is_dead:
            return
        member.is_dead = True
        self.members.remove(member)
        self.ray.kill(member.actor)  # one that can't be reached may still be at work
        stillborn = 0 if member.is_up else member.stillborn + 1
        if stillborn == TRIES:
            said = " ".join(str(error).split())[-SAID:]
            raise ModelError(
                f"a worker died {TRIES} times before it had loaded the model: out of memory? Ray says: {said}"
            )
        self._hire(stillborn)

    def _feed(self) -> None:
        """Every actor that is up has a few shards: one that it works on, one that is there when it is done."""
        for limit in range(1, IN_FLIGHT + 1):
            for member in self.members:
                if member.is_up and member.held < limit and (shard := self._next()) is not None:
                    self.waiting[member.actor.explain.remote(shard)] = member, shard
                    member.held += 1

    def _next(self) -> Shard | None:
        if self.again:
            return self.again.pop()
        shard = next(self.shards, None)
        self.has_more = shard is not None
        return shard

    def end(self) -> None:
        for member in self.members:
            self.ray.kill(member.actor)
