"""The scripts in examples/ run as a user runs them, and say what they promise."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_the_lecture(run, tmp_path: Path):
    said = run("lecture.py", "--out", str(tmp_path))
    assert "positive   " in said.split("2. ")[0]
    for word in ("hates", "boring", "confused"):
        assert word in said.split("3. SHAP")[1].split("4. ")[0]
    figures = {"compare.svg", "grad_sam.svg", "shap.svg", "head-0-layer-0.svg", "head-0-layer-2.svg", "tcav.svg"}
    assert {path.name for path in tmp_path.iterdir()} == figures
    assert all(path.read_text().startswith("<svg") for path in tmp_path.iterdir())


def test_my_own_classifier(run):
    said = run("own_classifier.py")
    assert "superb" in said.split("words, strongest first:")[1].split("why")[0]
    assert "my own module, scores: [" in said
    assert "error" in said.split("its receipt:")[1]


def test_my_own_prompt(run):
    said = run("own_prompt.py")
    assert "rather than" in said
    assert said.count("inputs +") + said.count("inputs -") == 2
    assert said.count(" from [(") == 3


def test_my_own_data(run, tmp_path: Path):
    file = tmp_path / "mine.csv"
    file.write_text("review\na superb film\nan awful film\n")
    said = run("own_data.py", str(file), "--text", "review", "--out", str(tmp_path / "out"))
    assert "2 rows, 0 failed" in said
    assert "superb" in said
    assert "auac" in said
    assert list((tmp_path / "out").glob("*.parquet"))


def test_every_example_is_tested():
    known = {"lecture.py", "own_classifier.py", "own_prompt.py", "own_data.py"}
    elsewhere = {"tcav_zebra.py", "figures.py"}  # the first needs photos and a model, the second has tests of its own
    assert {path.name for path in EXAMPLES.glob("*.py")} <= known | elsewhere
