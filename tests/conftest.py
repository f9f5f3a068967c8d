"""Small models shared by tests. Nothing is downloaded."""

from __future__ import annotations

import os
import shutil

if shutil.which("nvidia-smi") is None:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run on the CPU; read once, when Triton is imported

import pytest
import torch

import whence


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)  # tiny tensors: threads cost more than they give


@pytest.fixture(scope="session")
def sentiment():
    return whence.load("sentiment")


@pytest.fixture(scope="session")
def digits():
    return whence.load("digits")


@pytest.fixture(scope="session")
def tones():
    return whence.load("tones")
