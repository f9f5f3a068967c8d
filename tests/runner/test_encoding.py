"""How many processes encode rows."""

from __future__ import annotations

import pytest

from whence.runner import encoding


@pytest.mark.parametrize(("cores", "crew", "count"), [(2, 1, 1), (16, 1, 3), (16, 2, 3), (16, 3, 1)])
def test_encoders_for_the_cores_that_there_are(cores, crew, count, monkeypatch):
    monkeypatch.setattr(encoding.os, "sched_getaffinity", lambda pid: range(cores), raising=False)
    assert encoding._children(crew) == count
