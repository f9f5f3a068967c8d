"""A real Ray on this machine: the same rows, also when a worker is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import whence
from tests.runner.conftest import files, records, sentences
from tests.runner.killers import DeadlyMethod
from whence.errors import InputError
from whence.methods.random_scores import Random
from whence.runner import ray_executor
from whence.runner.attempts import notes
from whence.runner.plan import Plan, Shard
from whence.runner.work import Job

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'whence-xai[ray]'")
SMALL = {"rows_per_shard": 16, "batch_tokens": 64}
TEXTS = sentences(160)


@pytest.fixture(scope="module")
def cluster():
    """Two workers. Actors find what is imported here."""
    paths = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, os.sys.path)), "HF_HUB_OFFLINE": "1"}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=paths, object_store_memory=10**8)
    yield
    ray.shutdown()


def test_same_rows_and_a_killed_worker_is_replaced(cluster, tmp_path, monkeypatch):
    whence.run(TEXTS, model="sentiment", out=tmp_path / "local", **SMALL)
    fleets, killed = [], []

    class Fleet(ray_executor._Fleet):
        def reports(self, workers):
            fleets.append(self)
            return super().reports(workers)

    def kill_one(done, total, rate):
        if done >= 32 and not killed:
            killed.append(ray.get(fleets[0].members[0].actor.up.remote()))
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(ray_executor, "_Fleet", Fleet)
    done = whence.run(
        TEXTS, model="sentiment", out=tmp_path / "ray", executor="ray", workers=2, progress=kill_one, **SMALL
    )
    assert killed
    assert done.complete
    assert [r["row"] for r in records(tmp_path / "ray")] == list(range(160))
    assert files(tmp_path / "ray") == files(tmp_path / "local")


def test_a_file_beside_the_data_is_not_run(tmp_path):
    """Ray puts the folder in which it is started first on the path of its workers; names of files begin there still."""
    (tmp_path / "safetensors.py").write_text("open('ran', 'w').close()\n")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS[:6]))
    command = [Path(sys.executable).with_name("whence"), "run", "texts.txt", "--out", "out", "--executor", "ray"]
    options = ["--method", "random", "--workers", "1", "--rows-per-shard", "8", "--batch-tokens", "64"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(records(tmp_path / "out")) == 6
    assert not (tmp_path / "ran").exists()


def test_a_row_that_kills_its_worker_fails_by_itself(cluster, tmp_path):
    texts = [*TEXTS[:20], "a killer of a film", *TEXTS[:11]]
    out = tmp_path / "out"
    done = whence.run(texts, model="sentiment", method=DeadlyMethod(), out=out, executor="ray", workers=1, **SMALL)
    assert done.rows == 32
    assert [r["row"] for r in records(out) if "process died" in (r["error"] or "")] == [20]
    assert not notes(out)


def test_a_folder_that_a_machine_does_not_see_is_refused(cluster, tmp_path):
    job = Job("sentiment", Random(), Plan(16, 16, 64, 1), tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"is not the same folder on .* a folder that all machines of the cluster see"):
        list(ray_executor.RayExecutor(1).run(job, whence.load("sentiment"), iter([Shard(0, [])]), print))


def test_workers_take_their_part_of_a_cluster():
    job = Job("sentiment", Random(), Plan(16, 16, 64, threads=2), Path("out"))
    here = SimpleNamespace(device=torch.device("cpu"))
    there = SimpleNamespace(device=torch.device("cuda:0"))
    needs = lambda adapter, **given: ray_executor.RayExecutor(**given).needs(job, adapter)
    assert needs(here) == {"num_cpus": 2, "num_gpus": 0}
    assert needs(here, cpus=0.5) == {"num_cpus": 0.5, "num_gpus": 0}
    assert needs(there) == needs(here, gpus=1) == {"num_cpus": 1, "num_gpus": 1}
    assert needs(there, gpus=0.25, cpus=0.5) == {"num_cpus": 0.5, "num_gpus": 0.25}
