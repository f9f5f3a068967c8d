"""Versions: what was tested is what is declared, and others are not passed over in silence."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from whence.stamp import TESTED, untested

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("package", TESTED)
def test_what_was_tested_is_what_is_declared(package):
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    pinned = re.search(rf"^{package}==(\d+\.\d+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert f"{package}>={TESTED[package][0]}" in wanted
    assert pinned[1] == TESTED[package][1]


@pytest.mark.parametrize(
    ("torch", "is_said"),
    [
        ("2.10.9", True),
        ("2.11.0+cu130", False),
        ("2.13.7", False),
        ("2.14.0.dev2026", True),
        ("3.0.0", True),
        ("unknown", False),
    ],
)
def test_versions_outside_are_named(torch, is_said):
    said = untested({"torch": torch, "transformers": "5.20.0"})
    assert (said is not None) == is_said
    assert said is None or torch in said


def test_the_import_says_so():
    code = (
        "import importlib.metadata as m; real = m.version\n"
        "m.version = lambda name: '9.9.0' if name == 'torch' else real(name)\n"
        "import whence"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "was tested with torch 2.11 to 2.13, and this is 9.9.0" in done.stderr
