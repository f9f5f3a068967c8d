"""How busy a GPU was, from what a stand-in for nvidia-smi says."""

from __future__ import annotations

import time

import pytest

from benchmarks.busy import Busy


def test_the_share_of_the_looks_in_between(tmp_path, monkeypatch):
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\nfor n in 100 '[N/A]' 50 90; do echo \"$n\"; done\nexec sleep 60\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    begin = time.perf_counter()
    with Busy() as busy:
        while len(busy.seen) < 3 and time.perf_counter() < begin + 30:
            time.sleep(0.01)
    assert busy.between(begin, time.perf_counter()) == pytest.approx(0.8)
    assert busy.between(begin - 2, begin - 1) is None


def test_nobody_to_ask(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with Busy() as busy:
        pass
    assert busy.between(0, time.perf_counter()) is None
