"""The script behind docs/figures runs, and the page shows what it writes."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_figure_of_the_page_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["figures.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "examples" / "figures.py"), run_name="__main__")
    written = {path.name for path in tmp_path.iterdir()}
    page = (ROOT / "docs" / "figures.md").read_text()
    assert written
    for name in written:
        assert f"(figures/{name})" in page, f"docs/figures.md does not show {name}"
        assert (ROOT / "docs" / "figures" / name).stat().st_size < 100_000
