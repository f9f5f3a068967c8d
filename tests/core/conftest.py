"""Fixtures of the core's tests."""

from __future__ import annotations

import pytest
import torch

from tests.core.helpers import PRESETS


@pytest.fixture(params=PRESETS)
def preset(request: pytest.FixtureRequest) -> str:
    """The name of every preset, one after the other."""
    return request.param


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
