"""The notebooks run from top to bottom, offline, and are kept without what they showed."""

from __future__ import annotations

import json

import pytest

from docs.generate.notebooks import FOLDER, NOTEBOOKS, played


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_figures(name, tmp_path):
    shown = [cell for cell in played(name, tmp_path) if hasattr(cell.value, "save")]
    assert len(shown) >= 2


def test_every_notebook_is_known_and_clean():
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == set(NOTEBOOKS)
    for name in NOTEBOOKS:
        held = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
        assert held["nbformat"] == 4
        assert len({cell["id"] for cell in held["cells"]}) == len(held["cells"])
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in held["cells"])
