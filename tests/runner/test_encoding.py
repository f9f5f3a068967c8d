"""How many processes encode rows."""

from __future__ import annotations

import threading

import pytest

from tests.runner.conftest import wait_until
from whence.data.rows import Row
from whence.runner import encoding


@pytest.mark.parametrize(("cores", "crew", "count"), [(2, 1, 1), (16, 1, 3), (16, 2, 3), (16, 3, 1)])
def test_encoders_for_the_cores_that_there_are(cores, crew, count, monkeypatch):
    monkeypatch.setattr(encoding.os, "sched_getaffinity", lambda pid: range(cores), raising=False)
    assert encoding._children(crew) == count


class Side:
    """A process that encodes, without one: it is up when it is let."""

    made: list[Side] = []

    def __init__(self, light):
        self.may, self.is_up_now, self.is_closed, self.rows = threading.Event(), threading.Event(), False, []
        self.is_dead = False
        self.made.append(self)

    def is_up(self):
        found = self.may.wait(60) and not self.is_closed
        self.is_up_now.set()
        return found

    def ask(self, rows):
        self.rows = rows
        return True

    def answer(self):
        return [f"{self.made.index(self)}: {row.content}" for row in self.rows]

    def close(self):
        self.is_closed = True
        self.may.set()


@pytest.fixture
def sides(monkeypatch):
    monkeypatch.setattr(Side, "made", [])
    monkeypatch.setattr(encoding, "_Side", Side)
    return Side.made


def test_the_first_process_encodes_while_the_next_one_starts(sides):
    rows = [Row(n, str(n), text) for n, text in enumerate("abcd")]
    beside = encoding.Beside(lambda given: [f"here: {row.content}" for row in given], b"", 2)
    wait_until(lambda: sides)
    assert beside(rows) == ["here: a", "here: b", "here: c", "here: d"]
    assert len(sides) == 1  # the other has not begun
    sides[0].may.set()
    assert beside.ready.wait(60)
    assert beside(rows) == ["0: a", "0: b", "0: c", "0: d"]
    wait_until(lambda: len(sides) == 2)
    sides[1].may.set()
    wait_until(lambda: len(beside.sides) == 2)
    assert beside(rows) == ["0: a", "0: b", "1: c", "1: d"]
    beside.close()
    assert all(side.is_closed for side in sides)


def test_no_process_takes_the_place_of_one_that_was_ended(sides, monkeypatch):
    """A run that is given up ends the process that encodes for it, which to the thread that asked it looks like a
    death."""
    answering = threading.Event()

    def answer(side):
        answering.set()
        wait_until(lambda: side.is_closed)
        side.is_dead = True

    monkeypatch.setattr(Side, "answer", answer)
    beside, errors = encoding.Beside(lambda given: [], b"", 1), []
    wait_until(lambda: sides)
    sides[0].may.set()
    assert beside.ready.wait(60)

    def ask():
        try:
            beside([Row(0, "0", "a")])
        except encoding.DiedError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert answering.wait(60)
    beside.close()
    asking.join(60)
    assert len(sides) == len(errors) == 1


def test_no_process_is_left_that_was_about_to_start(sides):
    beside = encoding.Beside(lambda given: [], b"", 3)
    wait_until(lambda: sides)
    beside.close()
    assert sides[0].is_up_now.wait(60)
    assert [side.is_closed for side in sides] == [True]
