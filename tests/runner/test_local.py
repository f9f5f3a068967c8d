"""Which device each worker of a run has, asked without any."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from whence.runner.local import LocalExecutor


def devices(
    monkeypatch: pytest.MonkeyPatch, *, have: int, workers: int | None = None, model: Any = "bert", on: str = "cuda:0",
    asked: Any = None, spread: bool = False,
) -> list[str | None]:  # fmt: skip
    monkeypatch.setattr(torch.cuda, "device_count", lambda: have)
    module = nn.Linear(2, 2)
    if spread:
        module._hf_hook = object()
    adapter: Any = SimpleNamespace(device=torch.device(on), module=module)
    job: Any = SimpleNamespace(model=model, model_options={} if asked is None else {"device": asked})
    return LocalExecutor(workers).devices(job, adapter)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"have": 3}, ["cuda:0", "cuda:1", "cuda:2"]),
        ({"have": 2, "workers": 5}, ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]),
        ({"have": 2, "asked": "cuda"}, ["cuda:0", "cuda:1"]),
        ({"have": 4, "asked": "cuda:2", "on": "cuda:2"}, ["cuda:2"]),
        ({"have": 4, "asked": torch.device("cuda", 1), "workers": 2}, ["cuda:1", "cuda:1"]),
        ({"have": 2, "model": nn.Linear(2, 2)}, ["cuda:0"]),  # in memory: one copy of it, here
        ({"have": 2, "spread": True}, [None]),  # all devices work for one process
        ({"have": 1, "asked": "auto"}, ["cuda:0"]),
        ({"have": 2, "on": "cpu"}, [None]),
        ({"have": 0, "on": "cpu", "workers": 2}, [None, None]),
        ({"have": 0, "on": "mps"}, [None]),
    ],
)
def test_one_worker_for_each_device(monkeypatch, options, wanted):
    assert devices(monkeypatch, **options) == wanted
