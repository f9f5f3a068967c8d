"""The Ray executor: one actor for each device of a cluster.

Ray restarts an actor that dies and gives it its shard again; a shard appears under its name only when it is whole, so a
shard that is done twice is the same file. The output folder must be one that all machines see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from whence.extras import need
from whence.models.adapter import AbstractAdapter
from whence.runner.local import IN_FLIGHT
from whence.runner.manifest import ShardReport
from whence.runner.plan import Shard
from whence.runner.work import Job, explain_shards

__all__ = ["RayExecutor", "Worker"]


class Worker:
    """Lives in an actor: loads the model once, explains shards."""

    def __init__(self, job: Job, on_gpu: bool):
        self.job = job
        self.adapter = job.load("cuda" if on_gpu else None)

    def explain(self, shard: Shard) -> ShardReport:
        return next(explain_shards(self.job, self.adapter, iter([shard])))

    def pid(self) -> int:
        import os

        return os.getpid()


@dataclass(frozen=True)
class RayExecutor:
    """Explains shards on Ray: a cluster that is connected already, that RAY_ADDRESS names, or this machine."""

    workers: int | None = None
    """Default: one for each GPU of the cluster; without GPUs, one for every `threads` CPUs."""

    def run(
        self, job: Job, adapter: AbstractAdapter, shards: Iterable[Shard], progress: Callable[[int], None]
    ) -> Iterator[ShardReport]:
        """Reports of shards as they are finished."""
        ray = need("ray", "ray", "--executor ray")
        started = not ray.is_initialized()
        if started:
            ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        pool: list[Any] = []
        try:
            # Tokenising in a thread: an actor may use no more cores than it asked for.
            job = replace(job, encode_in_process=False)
            # A restarted actor needs the job again. A small one travels with the actor; a model in memory is put once
            # for all, under a reference that has to live as long as the pool.
            packed = job if isinstance(job.model, str) else ray.put(job)
            pool = self.pool(ray, job, packed, adapter)
            for report in _results(ray, pool, iter(shards)):
                yield report
                progress(report.rows)
        finally:
            for actor in pool:
                ray.kill(actor)
            if started:
                ray.shutdown()

    def pool(self, ray: Any, job: Job, packed: Any, adapter: AbstractAdapter) -> list[Any]:
        """The actors. More than the cluster has room for wait, which is what makes an autoscaler add machines."""
        on_gpu = adapter.device.type == "cuda"
        have = ray.cluster_resources()
        room = have.get("GPU", 0) if on_gpu else have.get("CPU", 1) // job.plan.threads
        needs = {"num_gpus": 1} if on_gpu else {"num_cpus": job.plan.threads}
        options = {**needs, "max_restarts": -1, "max_task_retries": -1}
        actor = ray.remote(**options)(Worker)
        return [actor.remote(packed, on_gpu) for _ in range(self.workers or max(1, int(room)))]


def _results(ray: Any, pool: list[Any], shards: Iterator[Shard]) -> Iterator[ShardReport]:
    """Every actor has a few shards at a time; whoever is done gets the next."""
    waiting: dict[Any, Any] = {}
    for _ in range(IN_FLIGHT):
        for actor, shard in zip(pool, islice(shards, len(pool)), strict=False):
            waiting[actor.explain.remote(shard)] = actor
    while waiting:
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        actor = waiting.pop(ready)
        if (following := next(shards, None)) is not None:
            waiting[actor.explain.remote(following)] = actor
        yield ray.get(ready)
