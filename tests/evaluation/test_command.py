"""`whence evaluate` and `whence tune`."""

from __future__ import annotations

from typer.testing import CliRunner

from whence.cli import app
from whence.data.labelled import opinions

run = CliRunner().invoke


def test_evaluate_a_file(tmp_path):
    data = tmp_path / "data.tsv"
    data.write_text("positive\ta gem\nnegative\ta dull film\n")
    out = tmp_path / "out.csv"
    done = run(app, ["evaluate", "--data", str(data), "--methods", "gi,lrp", "--target", "true", "--save", str(out)])
    assert done.exit_code == 0, done.output
    assert "target=true" in done.output
    assert out.read_text().startswith("method,metric,value,low,high")


def test_evaluate_what_comes_with_the_package():
    done = run(app, ["evaluate", "--limit", "2", "--methods", "gi,random", "--metrics", "auac"])
    assert done.exit_code == 0, done.output
    assert "2 examples" in done.output


def test_tune(tmp_path):
    out = tmp_path / "mine.json"
    done = run(app, ["tune", "--calibration", "2", "--held-out", "2", "--budget", "10", "--save", str(out)])
    assert done.exit_code == 0, done.output
    assert "which choices mattered" in done.output
    assert run(app, ["explain", "a gem", "--method", str(out)]).exit_code == 0


def test_the_sentences_are_half_positive():
    rows = opinions()
    assert len(rows) == 60
    assert sum(row.label == "positive" for row in rows) == 30
    assert len({row.input for row in rows}) == 60
    assert all(5 <= len(row.input.split()) <= 25 for row in rows)
