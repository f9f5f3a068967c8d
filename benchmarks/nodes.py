"""A cluster that loses machines while it works: `python -m benchmarks.nodes`.

Several nodes of Ray on this machine (`ray.cluster_utils`), each with a CPU of its own and a small object store. While
`whence.run` goes on, nodes are killed without a word, and others come; at the end rows are counted and shards compared
with those of a run in one process.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

import whence
from benchmarks.faults import SIZES, same, written

STORE = 80 * 2**20
"""Bytes of a node's object store, near the least that Ray accepts."""


class Losses:
    """Kills the node that joined first each time some more rows are done. The last stays, unless another comes."""

    def __init__(self, cluster: Cluster, nodes: list[object], every: int, losses: int, join: bool):
        self.cluster, self.nodes, self.every, self.left, self.join = cluster, nodes, every, losses, join
        self.next, self.lost, self.store = every, 0, 0.0

    def __call__(self, done: int, total: int | None, rate: float) -> None:
        have, free = ray.cluster_resources(), ray.available_resources()
        used = have.get("object_store_memory", 0) - free.get("object_store_memory", 0)
        self.store = max(self.store, used)
        if done >= self.next and self.left:
            self.next, self.left, self.lost = done + self.every, self.left - 1, self.lost + 1
            node = self.nodes.pop(0)
            threading.Thread(target=self.cluster.remove_node, args=(node, False), daemon=True).start()
            if self.join:
                self.nodes.append(self.cluster.add_node(num_cpus=1, object_store_memory=STORE))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--nodes", type=int, default=3)
    arguments.add_argument("--losses", type=int, default=2)
    arguments.add_argument("--every", type=int, default=400, help="Rows between two losses.")
    arguments.add_argument("--join", action="store_true", help="A node comes for each that is lost.")
    given = arguments.parse_args()
    if given.losses >= given.nodes and not given.join:
        arguments.error("no node would be left: fewer --losses, or --join")
    paths = os.pathsep.join([str(Path(whence.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    os.environ |= {"PYTHONPATH": paths, "RAY_health_check_period_ms": "1000"}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        data = written(work / "data.jsonl")
        whence.run(data, model="sentiment", out=work / "whole", method="gi", progress=False, **SIZES)
        # The head has no CPU to give: what is lost are machines that work.
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE})
        nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(given.nodes)]
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        losses = Losses(cluster, nodes, given.every, given.losses, given.join)
        begun = time.perf_counter()
        try:
            done = whence.run(
                data, model="sentiment", out=work / "ray", method="gi", executor="ray", progress=losses,
                worker_cpus=1, **SIZES,
            )  # fmt: skip
        finally:
            ray.shutdown()
            cluster.shutdown()
        assert done.complete
        joined = ", others join" if given.join else ""
        print(
            f"| {losses.lost} of {given.nodes} nodes of a Ray cluster are killed{joined} "
            f"| 1 run of {done.shards} shards | {same(work / 'ray', work / 'whole')}; at most "
            f"{losses.store / 2**20:.1f} MB in the object stores |"
        )
        print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
