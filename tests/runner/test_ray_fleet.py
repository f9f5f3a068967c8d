"""Who gets which shard when machines come and go: a made-up Ray whose actors die as they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from whence.errors import ModelError
from whence.runner.plan import Shard
from whence.runner.ray_executor import _Fleet

NEEDS = {"num_cpus": 1, "num_gpus": 0}


class Died(Exception):
    """The actor is gone."""


class Failed(Exception):
    """The work of an actor failed."""

    def __init__(self, cause: Exception):
        self.cause = cause


class Remote:
    """A method of an actor."""

    def __init__(self, call: Callable[..., Any]):
        self.remote = call


class Machine:
    """An actor: `up` and `explain` are answered, fail, or never come."""

    def __init__(self, ray: MadeUp, lives: int | None):
        self.ray, self.lives, self.is_killed = ray, lives, False
        self.up = Remote(lambda: ray.promise(self, "up"))
        self.explain = Remote(lambda shard: ray.promise(self, shard))

    def answer(self, asked: Any) -> Any:
        if self.lives is not None and self.lives <= 0:
            raise Died
        if self.lives is not None:
            self.lives -= 1
        return 1 if asked == "up" else asked.number


class MadeUp:
    """What `_Fleet` uses of Ray. `lives` are, actor by actor, answers before it dies; None: it never starts."""

    class exceptions:
        RayError, RayTaskError = (Died, Failed), Failed

    def __init__(self, *lives: int | None):
        self.lives, self.machines, self.promises = list(lives), [], {}

    def make(self) -> Machine:
        self.machines.append(Machine(self, self.lives.pop(0) if self.lives else None))
        return self.machines[-1]

    def promise(self, machine: Machine, asked: Any) -> int:
        self.promises[len(self.promises)] = machine, asked
        return len(self.promises) - 1

    def wait(self, references, num_returns, timeout):
        ready = [r for r in references if self.promises[r][0].lives is not None]
        assert ready or timeout is not None
        if not ready:
            raise TimeoutError("everything waits for machines that do not come")
        return ready[:1], references

    def get(self, reference):
        machine, asked = self.promises[reference]
        return machine.answer(asked)

    def kill(self, machine):
        machine.is_killed = True


def explained(ray: MadeUp, shards: int, workers: int) -> list[int]:
    fleet = _Fleet(ray, ray.make, iter([Shard(n, []) for n in range(shards)]), NEEDS)
    try:
        return list(fleet.reports(workers))
    finally:
        fleet.end()


def test_shards_of_a_lost_machine_go_to_those_that_are_left():
    ray = MadeUp(3, 100)  # the first comes up and does two shards; nothing ever comes in its place
    assert sorted(explained(ray, 20, 2)) == list(range(20))
    assert len(ray.machines) == 3
    assert all(machine.is_killed for machine in ray.machines)


def test_machines_that_never_come_keep_nobody_waiting():
    assert sorted(explained(MadeUp(100, None, None), 9, 3)) == list(range(9))


def test_the_last_machine_dies_and_another_takes_its_place():
    assert sorted(explained(MadeUp(2, 2, 2, 100), 9, 1)) == list(range(9))


def test_a_worker_that_never_comes_up_is_given_up():
    with pytest.raises(ModelError, match="died 3 times before it had loaded the model"):
        explained(MadeUp(0, 0, 0, 100), 9, 1)


def test_deaths_at_the_start_count_place_by_place():
    assert sorted(explained(MadeUp(0, 0, 0, 100, 100, 100), 9, 3)) == list(range(9))


def test_an_error_of_the_work_is_the_workers_own(monkeypatch):
    ray = MadeUp(100)
    monkeypatch.setattr(Machine, "answer", lambda self, asked: (_ for _ in ()).throw(Failed(ModelError("no weights"))))
    with pytest.raises(ModelError, match="no weights"):
        explained(ray, 3, 1)


def test_waiting_for_room_is_said_once(capsys, monkeypatch):
    ray = MadeUp(100)
    late, wait = [1, 1, 1], ray.wait
    monkeypatch.setattr(ray, "wait", lambda *a, **k: ([], a[0]) if late and late.pop() else wait(*a, **k))
    assert explained(ray, 2, 1) == [0, 1]
    assert capsys.readouterr().err.count("no room for a worker of 1 CPUs and 0 GPUs") == 1
