"""The command with language models: traces of what they write, and citations."""

from __future__ import annotations

import copy
import json

import pytest
import torch
import transformers
from typer.testing import CliRunner

import whence
from tests import small
from whence.cli import app, main
from whence.results import Citations, Trace

run = CliRunner().invoke
DOCUMENTS = {"guide.txt": "It was built in 1889. It is tall.", "notes.md": "Many visit it."}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    """A small Llama that reads 400 tokens, with its tokenizer, as a folder."""
    config = copy.deepcopy(small.llama().config)
    config.max_position_embeddings = 400
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = small.randomised(transformers.LlamaForCausalLM(config))
    tokenizer = copy.deepcopy(small.bytelevel())
    tokenizer.model_max_length = 400
    path = tmp_path_factory.mktemp("writer")
    module.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture
def documents(tmp_path) -> str:
    path = tmp_path / "documents"
    path.mkdir()
    for name, text in DOCUMENTS.items():
        (path / name).write_text(text, encoding="utf-8")
    (path / "picture.bin").write_bytes(b"\xff")
    return str(path)


def lines(*arguments: str) -> list[str]:
    result = run(app, list(arguments))
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout.splitlines()


def test_what_is_continued_has_a_line_for_each_token(folder):
    shown = lines("explain", "the plot", "-m", folder, "--continuation", " is good")
    assert shown[0].startswith("written: is good = ")
    assert len(shown) == 1 + len(" is good") + 2  # a header, a line for each byte, sides and receipt
    assert shown[-2].startswith("prompt: ")


def test_top_and_words_say_how_many_sources_and_which_rows(folder):
    shown = lines("explain", "the plot", "-m", folder, "--continuation", " is good", "--words", "--top", "2")
    rows = [line.split("\t") for line in shown[1:-2]]
    assert [row[1] for row in rows] == ["is", "good"]
    assert all(len(row[2].split(" · ")) == 2 for row in rows)
    named = {name.rsplit(" ", 1)[0] for row in rows for name in row[2].split(" · ")}
    assert named <= {"the", "plot", "is", "goo", "␣"}, "words; the letter that was written last has no column"


def test_json_is_a_trace_and_html_its_page(folder, tmp_path):
    path = tmp_path / "x.html"
    shown = lines("explain", "the plot", "-m", folder, "--generate", "3", "--json", "--save", str(path))
    trace = Trace.from_dict(json.loads(shown[0]))
    assert trace.scores.shape == (3, 8 + 2)
    assert 'id="whence-trace"' in path.read_text(encoding="utf-8")


def test_units_of_rows_and_columns(folder):
    shown = lines(
        "explain", "So. No.", "-m", folder, "--continuation", " a b", "--by", "sentence", "--rows", "word", "--json"
    )
    trace = Trace.from_dict(json.loads(shown[0]))
    assert trace.tokens == ("So.", "No.", "a")
    assert trace.written == (" a", " b")


def test_a_target_is_a_part_of_what_is_written_and_hops_go_further(folder):
    arguments = ("explain", "the plot", "-m", folder, "--continuation", " is good", "--target", "good", "--json")
    near, far = (json.loads(lines(*arguments, *more)[0]) for more in ((), ("--hops", "all")))
    assert near["target"].strip() == "good"
    model = whence.load(folder)
    wanted = whence.explain(model, "the plot", continuation=" is good", target=whence.span("good"))
    assert near["scores"] == pytest.approx(wanted.scores.tolist(), abs=1e-5)  # two runs of one computation
    assert far["options"]["hops"] >= 1
    assert far["target"] == near["target"]


def test_words_go_with_hops_and_with_units(folder):
    given = ("explain", "So. No.", "-m", folder)
    by_hops = lines(*given, "--continuation", " a b", "--hops", "all", "--words")
    assert [line.split("\t")[1] for line in by_hops[1:]] == ["So.", "", "No.", "", "a", ""]
    assert [line.split("\t")[1] for line in lines(*given, "--by", "sentence", "--words")[1:3]] == ["So.", "No."]


def test_cite_answers_from_a_folder(folder, documents, tmp_path):
    path = tmp_path / "x.html"
    shown = lines("cite", "How old?", documents, "-m", folder, "--answer", "Old. Tall.", "--save", str(path))
    assert shown[0] == "question: How old?"
    assert shown[1].startswith("answer: Old.")
    assert any(line.endswith("[1] guide") for line in shown)
    assert "It was built in 1889." in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("method", ["lrp", "attn_lrp"])
def test_cite_writes_and_prints_json(folder, documents, method):
    shown = lines("cite", "How old?", documents, "-m", folder, "--generate", "4", "--json", "--method", method)
    result = Citations.from_dict(json.loads(shown[0]))
    assert result.names == ("guide", "notes")
    assert result.trace.whole.method == method
    assert sum(result.documents) + result.elsewhere == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cite", "When?", "{empty}"], "there is no text in the folder"),
        (["cite", "When?", "nowhere.txt"], "no such file or folder"),
        (["cite", " ", "{documents}"], "there is no question"),
        (["cite", "When?", "{documents}/picture.bin"], "as a document: use .txt, .md or .jsonl"),
        (["explain", "x", "--generate", "2", "--target", "Paris"], "'Paris' was not written"),
        (["explain", "x", "--generate", "2", "--hops", "some"], "--hops some is no number of hops"),
        (["explain", "x", "--generate", "2", "--by", "wrod"], "Did you mean 'word'"),
    ],
)
def test_errors_are_one_line(arguments, says, folder, documents, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    named = [one.format(empty=tmp_path / "empty", documents=documents) for one in arguments]
    monkeypatch.setattr("sys.argv", ["whence", *named, "--model", folder])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert says in message
    assert "Traceback" not in message


def test_graph(folder, tmp_path):
    done = run(app, ["graph", "It is", "--model", folder, "--json", "--save", str(tmp_path / "graph.json")])
    assert done.exit_code == 0, done.output
    read = whence.AttributionGraph.load(tmp_path / "graph.json")
    assert json.loads(done.stdout)["whence"]["target"] == read.target
