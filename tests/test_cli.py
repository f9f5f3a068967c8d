"""The command, run as a user runs it."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import whence
from whence.cli import app, main
from whence.results.showing import formats

run = CliRunner().invoke


def test_explain_prints_tokens_and_receipt():
    result = run(app, ["explain", "a gorgeous, witty, seductive movie"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("prediction: positive")
    assert any(line.endswith("\tgorgeous") for line in lines)
    assert lines[-1].startswith("receipt: inputs")


def test_json_lines_from_standard_input():
    result = run(app, ["explain", "--json", "--words"], input="a gem\n\nso dull\n")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["prediction"]["labels"][0] for row in rows] == ["positive", "negative"]
    assert rows[0]["words"][1]["text"] == "a"


def test_top_words_target_and_file(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("an unwatchable mess\n")
    result = run(app, ["explain", "-f", str(path), "--words", "--top", "1", "--target", "negative|positive"])
    assert "negative rather than positive" in result.stdout
    assert len(result.stdout.splitlines()) == 2


def test_save_one_and_several(tmp_path):
    run(app, ["explain", "a gem", "--save", str(tmp_path / "x.html")])
    assert "<span" in (tmp_path / "x.html").read_text()
    run(app, ["explain", "a gem", "so dull", "--save", str(tmp_path / "y.json")])
    assert whence.Explanation.load(tmp_path / "y-2.json").prediction.label == "negative"


def test_what_is_saved_has_words_where_words_are_asked_for(tmp_path):
    told = ["explain", "a witty, seductive gem", "--words", "--save"]
    run(app, [*told, str(tmp_path / "x.json")])
    assert whence.Explanation.load(tmp_path / "x.json").tokens[2:4] == ("witty,", "seductive")
    run(app, [*told, str(tmp_path / "x.html")])
    assert '"witty,"' in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_a_report_holds_every_class_and_the_explained_one_first(tmp_path):
    run(app, ["explain", "a gem", "--target", "negative", "--save", str(tmp_path / "x.html")])
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert re.findall(r'"target":"(\w+)"', page) == ["negative", "positive"]
    run(app, ["explain", "a gem", "--method", "rollout", "--save", str(tmp_path / "y.html")])
    same_for_all = (tmp_path / "y.html").read_text(encoding="utf-8")
    assert re.findall(r'"target":"(\w+)"', same_for_all) == ["positive"]


def test_a_figure_for_a_paper_and_the_page_of_an_audit(tmp_path):
    figure, page = tmp_path / "x.svg", tmp_path / "x.html"
    run(app, ["explain", "a gem", "--save", str(figure), "--column", "single", "--font", "serif"])
    assert 'width="3.25in"' in figure.read_text(encoding="utf-8")
    run(app, ["audit", "sentiment", "a gem", "--save", str(page)])
    assert "Every unit is accounted for" in page.read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, ["explain", "a gem", "--column", "single"])
    assert "--save figure.pdf" in str(refused.exception)


def test_methods_are_listed_by_name():
    names = [line.split()[0] for line in run(app, ["methods"]).stdout.splitlines()]
    assert names == sorted(names)


def test_methods_and_audit_and_compare():
    listed = run(app, ["methods"]).stdout
    assert all(name in listed for name in whence.methods)
    assert "layer_norm" in run(app, ["audit", "sentiment", "a gem"]).stdout
    table = run(app, ["compare", "a gem", "--methods", "gi,lrp"]).stdout.splitlines()
    assert table[1].split("\t") == ["feature", "gi", "lrp"]
    assert table[-1].startswith("[CLS] among 4 by size: gi ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["explain", ""], "empty"),
        (["explain", "x", "--method", "lpr"], "Did you mean 'lrp'"),
        (["explain", "x", "--target", "postive"], "Did you mean 'positive'"),
        (["explain", "x", "--model", "./nowhere"], "no such folder"),
        (["explain", "-f", "nowhere.txt"], "no such file"),
        (["explain", "x", "--save", "x.xyz"], "can't write"),
        (["explain", "good " * 300], "Pass --truncate to explain the first 256"),
        (["explain", "x", "--rows", "word"], "pass --generate or --continuation, without --target and --hops"),
    ],
)
def test_errors_are_one_line(arguments, says, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["whence", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert says in message
    assert "Traceback" not in message


@pytest.mark.parametrize("out", ["taken/below", "taken"])
def test_what_the_system_says_is_one_line(out, tmp_path, monkeypatch, capsys):
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setattr("sys.argv", ["whence", "explain", "a gem", "--save", str(tmp_path / out / "x.svg")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert "whence: " in message
    assert str(tmp_path / "taken") in message
    assert "Traceback" not in message


def test_bytes_that_are_no_text_are_refused_from_a_file_and_from_standard_input(tmp_path):
    path = tmp_path / "bin.txt"
    path.write_bytes(b"\xff\xfe\x00")
    for given in (["-f", str(path)], ["-"]):
        said = str(run(app, ["explain", *given], input=path.read_bytes()).exception)
        assert "is not UTF-8 text: 'utf-8' codec can't decode byte 0xff in position 0" in said


def test_the_help_of_show_names_every_file_that_it_writes():
    exp = whence.explain("sentiment", "a gem")
    told = run(app, ["show", "--help"], env={"COLUMNS": "200"}).stdout
    assert set(re.findall(r"\.[a-z]+\b", told)) == {*formats(exp), *exp._writers()}


@pytest.mark.parametrize("given", [["explain", "a gem"], ["similarity", "minilm", "a", "b"], ["summary", "out"]])
def test_top_is_one_or_more(given):
    for top in ("0", "-3"):
        result = run(app, [*given, "--top", top])
        assert result.exit_code == 2
        assert "Invalid value for '--top'" in result.output


def test_at_reads_the_inside(tmp_path):
    result = run(
        app, ["explain", "a gem", "--at", "heads", "--at", "layers", "--top", "2", "--save", str(tmp_path / "x.html")]
    )
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[1] == "heads:"
    assert re.fullmatch(r"[+-]\d\.\d{4}\tlayer \d, head \d", lines[2])
    assert lines[4] == "layers:"
    assert lines[-1].startswith("receipt of layer 2: layer +")
    assert "Relevance of heads" in (tmp_path / "x.html").read_text()
    row = json.loads(run(app, ["explain", "a gem", "--at", "neurons", "--json"]).stdout)
    assert len(row["scores"]["neurons"]["rows"]) == 3
    assert run(app, ["explain", "a gem", "--at", "haeds"]).exit_code != 0


def test_patch_names_places_and_saves(tmp_path):
    given = ["patch", "sentiment", "a gorgeous movie", "a terrible movie", "--target", "positive", "--truth"]
    result = run(app, [*given, "--save", str(tmp_path / "x.json")])
    assert result.exit_code == 0, result.output
    assert "correlation with true patching" in result.stdout
    assert whence.Patching.load(tmp_path / "x.json").target == "positive"
    assert json.loads(run(app, [*given, "--json", "--at", "mlps"]).stdout)["kind"] == "mlps"
    edges = json.loads(run(app, [*given[:-1], "--json", "--at", "edges", "--truth-of", "3"]).stdout)
    assert sum(value is not None for row in edges["truth"] for value in row) == 3
