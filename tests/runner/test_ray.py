"""A real Ray on this machine: the same rows, also when a worker is killed in the middle."""

from __future__ import annotations

import os
import signal

import pytest

import whence
from tests.runner.conftest import files, records, sentences
from tests.runner.killers import DeadlyMethod
from whence.runner.attempts import notes
from whence.runner.ray_executor import RayExecutor

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
    pools, killed = [], []
    made = RayExecutor.pool

    def pool(self, *args):
        pools.append(made(self, *args))
        return pools[-1]

    def kill_one(done, total, rate):
        if done >= 32 and not killed:
            killed.append(ray.get(pools[0][0].pid.remote()))
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(RayExecutor, "pool", pool)
    done = whence.run(
        TEXTS, model="sentiment", out=tmp_path / "ray", executor="ray", workers=2, progress=kill_one, **SMALL
    )
    assert killed
    assert done.complete
    assert [r["row"] for r in records(tmp_path / "ray")] == list(range(160))
    assert files(tmp_path / "ray") == files(tmp_path / "local")


def test_a_row_that_kills_its_worker_fails_by_itself(cluster, tmp_path):
    texts = [*TEXTS[:20], "a killer of a film", *TEXTS[:11]]
    out = tmp_path / "out"
    done = whence.run(texts, model="sentiment", method=DeadlyMethod(), out=out, executor="ray", workers=1, **SMALL)
    assert done.rows == 32
    assert [r["row"] for r in records(out) if "process died" in (r["error"] or "")] == [20]
    assert not notes(out)
