"""A run gives what `explain` gives; bad rows are recorded; other settings are refused."""

from __future__ import annotations

import errno
import json
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import whence
from tests import small
from tests.runner.conftest import files, records, sentences
from whence.cli import app
from whence.data.rows import Row
from whence.errors import InputError, MissingExtraError, UnknownNameError, WhenceError
from whence.methods.explaining import as_method
from whence.runner import show, summary
from whence.runner.attempts import note_of
from whence.runner.encoding import Encoder
from whence.runner.manifest import Journal, Manifest, locked
from whence.runner.plan import Plan, Shard
from whence.runner.shards import ShardWriter
from whence.runner.window import WindowExplainer
from whence.runner.work import Job, _Work

SMALL = {"rows_per_shard": 16, "batch_tokens": 64}


def test_rows_are_those_of_explain(sentiment, reviews, tmp_path):
    out = tmp_path / "out"
    done = whence.run(reviews, model=sentiment, text="review", id_column="name", out=out, **SMALL)
    found = records(out)
    assert (done.rows, done.failed, done.shards, done.complete) == (60, 2, 4, True)
    assert [r["row"] for r in found] == list(range(60))
    assert [r["id"] for r in found] == [f"r{n}" for n in range(60)]
    good = [r for r in found if r["error"] is None]
    alone = whence.explain(sentiment, [r["text"] for r in good], progress=False)
    for row, exp in zip(good, alone, strict=True):
        assert tuple(row["tokens"]) == exp.tokens
        assert (row["prediction"], row["target"]) == (exp.prediction.label, exp.target)
        # Other neighbours in the batch change the order of float32 sums.
        np.testing.assert_allclose(row["scores"], exp.scores, atol=1e-4)
        sinks = sum(s["amount"] for s in row["receipt_sinks"])
        assert row["receipt_inputs"] + sinks + row["receipt_error"] == pytest.approx(row["target_score"])
    assert "empty" in found[7]["error"]
    assert found[7]["scores"] is None


PAIRS = [{"query": "a witty movie", "page": "a good film"}, {"query": "a dull film", "page": "a movie is bad"}]


def test_pairs_of_an_embedding_are_compared_row_by_row(tmp_path):
    model = whence.load((small.encoder(), small.wordpiece()), task="sentence-embedding")
    whence.run(PAIRS, model=model, text="query", text_pair="page", out=tmp_path / "out")
    for row, pair in zip(records(tmp_path / "out"), PAIRS, strict=True):
        exp = whence.explain(model, pair["query"], target=whence.similar_to(pair["page"]))
        assert (row["text"], row["target"]) == (pair["query"], exp.target)
        np.testing.assert_allclose(row["scores"], exp.scores, atol=1e-6)
        assert row["target_score"] == pytest.approx(whence.similarity(model, *pair.values()).score, abs=1e-5)
    with pytest.raises(InputError, match="text_pair"):
        whence.run(PAIRS, model=model, text="query", out=tmp_path / "other")


def test_pairs_of_a_reranker_are_read_together(tmp_path):
    model = whence.load((small.classifier(1), small.wordpiece()))
    whence.run(PAIRS, model=model, text="query", text_pair="page", out=tmp_path / "out")
    for row, pair in zip(records(tmp_path / "out"), PAIRS, strict=True):
        exp = whence.explain(model, tuple(pair.values()))
        assert tuple(row["tokens"]) == exp.tokens
        np.testing.assert_allclose(row["scores"], exp.scores, atol=1e-6)


def test_a_finished_run_is_left_alone(sentiment, reviews, tmp_path):
    out = tmp_path / "out"
    whence.run(reviews, model=sentiment, text="review", out=out, **SMALL)
    before = files(out)
    again = whence.run(reviews, model=sentiment, text="review", out=out)
    assert (again.fresh, again.rows) == (0, 60)
    assert files(out) == before


@pytest.mark.parametrize("change", [lambda texts: ["another", *texts[1:]], lambda texts: [*texts, "more"] * 2])
def test_a_finished_run_is_not_taken_for_one_of_other_rows(sentiment, tmp_path, change):
    texts = sentences(20)
    whence.run(texts, model=sentiment, out=tmp_path / "out", **SMALL)
    assert whence.run(list(texts), model=sentiment, out=tmp_path / "out").fresh == 0
    with pytest.raises(WhenceError):
        whence.run(iter(change(texts)), model=sentiment, out=tmp_path / "out")
    other = [*texts[:-1], "another"]
    with pytest.raises(InputError, match="not those of the earlier run"):
        whence.run(other, model=sentiment, out=tmp_path / "out")


def test_nothing_is_encoded_beside_a_shard_that_is_done_with_care(sentiment, tmp_path, monkeypatch):
    """The second of three shards was left by a process that died."""
    rows = [[Row(16 * n + k, str(k), f"a film {k}") for k in range(16)] for n in range(3)]
    shards = [Shard(n, own) for n, own in enumerate(rows)]
    note_of(tmp_path, 1).write_text("{")
    asked = []

    def encode(own):
        asked.append(own[0].number)
        return Encoder(sentiment, {})(own)

    job = Job(sentiment, as_method("random"), Plan(16, 16, 64, 16), tmp_path, token="x")
    work = _Work(job, job.explainer(sentiment), encode)
    careful = work._with_care

    def slowly(window, progress):
        time.sleep(0.3)  # time enough for the next to be encoded
        assert 32 not in asked
        return careful(window, progress)

    monkeypatch.setattr(work, "_with_care", slowly)
    assert [report.shard for report in work.reports(iter(shards), lambda rows: None)] == [0, 1, 2]
    assert asked == [0, 16, 32]


def test_a_target_that_is_almost_a_number(sentiment, tmp_path):
    """It fails by itself, and the others are explained."""
    given = [{"text": "a gem", "y": y} for y in ("positive", "²", "--1", "1", 0)]
    whence.run(given, model=sentiment, out=tmp_path / "out", target_column="y", **SMALL)
    found = records(tmp_path / "out")
    assert [row["target"] for row in found] == ["positive", None, None, "positive", "negative"]
    assert all("unknown label" in found[n]["error"] for n in (1, 2))


def test_a_word_with_a_space_is_no_number(tmp_path):
    """Number 5 is another word, and class 1 is not the one that is called 1."""
    writer = whence.load((small.llama(), small.bytelevel()))
    whence.run([{"text": "a gem", "y": y} for y in (" ", "5")], model=writer, out=tmp_path / "a", target_column="y")
    assert [row["target"] for row in records(tmp_path / "a")] == [" ", small.bytelevel().decode([5])]
    named = whence.load(
        (small.classifier(), small.wordpiece()), labels=["1", "2", "3"][: small.classifier().num_labels]
    )
    whence.run([{"text": "a gem", "y": y} for y in ("1", " 1")], model=named, out=tmp_path / "b", target_column="y")
    first, second = records(tmp_path / "b")
    assert (first["target"], second["target"]) == ("1", None)
    assert "unknown label ' 1'" in second["error"]


def test_results_do_not_stand_among_the_data(sentiment, reviews, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    reviews.rename(folder / reviews.name)
    for data in (folder, f"{folder}/*.jsonl", folder / reviews.name):
        with pytest.raises(InputError, match="is the folder of the data, and shards would stand among it"):
            whence.run(data, model=sentiment, text="review", out=folder)
    assert [path.name for path in folder.iterdir()] == [reviews.name]
    for _ in range(2):  # below it, they are no data, and the run can be gone on with
        done = whence.run(folder, model=sentiment, text="review", out=folder / "explained", **SMALL)
    assert (done.rows, done.fresh) == (60, 0)


def test_half_precision_and_targets_by_row(sentiment, reviews, tmp_path):
    out = tmp_path / "out"
    whence.run(
        reviews, model=sentiment, text="review", target_column="label", scores="float16", limit=20, out=out, **SMALL
    )
    table = pq.read_table(out)
    assert str(table.schema.field("scores").type.value_type) == "halffloat"
    assert [r["target"] for r in table.to_pylist() if r["error"] is None][:4] == ["negative", "positive"] * 2


def test_other_settings_are_refused_with_the_difference(sentiment, reviews, tmp_path):
    out = tmp_path / "out"
    whence.run(reviews, model=sentiment, text="review", limit=20, out=out, **SMALL)
    with pytest.raises(InputError, match=r'method\.name: "lrp" before, "gi" now'):
        whence.run(reviews, model=sentiment, text="review", method="gi", limit=20, out=out)
    with pytest.raises(InputError, match="rows_per_shard: 16 before, 8 now"):
        whence.run(reviews, model=sentiment, text="review", limit=20, out=out, rows_per_shard=8)
    reviews.write_text(reviews.read_text() + '{"review": "more", "name": "x", "label": 0}\n')
    with pytest.raises(InputError, match=r"data\.bytes"):
        whence.run(reviews, model=sentiment, text="review", limit=20, out=out)


def test_another_model_is_refused(reviews, tmp_path):
    out, model = tmp_path / "out", whence.load("sentiment")
    whence.run(reviews, model=model, text="review", limit=20, out=out, **SMALL)
    with torch.no_grad():
        model.module.classifier.bias += 1
    with pytest.raises(InputError, match=r"model\.weights"):
        whence.run(reviews, model=model, text="review", limit=20, out=out)


def test_an_iterable_must_come_in_the_same_order(sentiment, tmp_path):
    texts, out = sentences(40), tmp_path / "out"
    whence.run(texts, model=sentiment, out=out, **SMALL)
    (out / "shard-000001.parquet").unlink()
    whence.run(iter(texts[:]), model=sentiment, out=tmp_path / "other", **SMALL)
    with pytest.raises(InputError, match="not those of the earlier run"):
        whence.run([*reversed(texts)], model=sentiment, out=out)
    assert whence.run(texts, model=sentiment, out=out).fresh == 16
    assert files(out) == files(tmp_path / "other")


def test_bad_rows(sentiment, tmp_path):
    texts = ["a gem", "", "word " * 400, None, "so dull"]
    whence.run([{"text": t} for t in texts], model=sentiment, out=tmp_path / "out", **SMALL)
    errors = [r["error"] for r in records(tmp_path / "out")]
    assert errors[0] is None
    assert errors[4] is None
    assert "empty" in errors[1]
    assert "tokens and the model takes at most" in errors[2]
    assert "missing" in errors[3]
    with pytest.raises(InputError, match=r"row 1 \(id 1\): the text is empty"):
        whence.run([{"text": t} for t in texts], model=sentiment, out=tmp_path / "strict", strict=True, **SMALL)
    assert not files(tmp_path / "strict")
    assert not list((tmp_path / "strict").glob("*.part"))


def test_a_score_that_is_not_finite_spoils_one_row(sentiment, tmp_path):
    def broken(outputs):
        scores = outputs.logits[:, 1]
        return scores * torch.where(scores.detach() > 3, float("nan"), 1.0)

    out = tmp_path / "out"
    whence.run(sentences(40), model=sentiment, target=broken, out=out, **SMALL)
    found = records(out)
    high = [e.prediction.scores[0] > 3 and e.prediction.label == "positive" for e in
            whence.explain(sentiment, [r["text"] for r in found if r["text"]], progress=False)]  # fmt: skip
    failed = ["not finite" in (r["error"] or "") for r in found if r["text"]]
    assert any(failed)
    assert failed == high


def test_nothing_works_is_an_error_of_its_own(sentiment, tmp_path):
    with pytest.raises(whence.WhenceError, match="none of the first"):
        whence.run(sentences(40), model=sentiment, target="postive", out=tmp_path / "out", **SMALL)


def test_images_and_a_broken_one(digits, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for n in range(3):
        pixels = np.random.default_rng(n).integers(0, 255, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{n}.png")
    (folder / "1.png").write_bytes(b"no image")
    whence.run(folder, model=digits, out=tmp_path / "out", **SMALL)
    first, broken, _ = records(tmp_path / "out")
    assert first["text"].endswith("0.png")
    assert len(first["scores"]) == np.prod(first["shape"])
    assert "can't be read as an image" in broken["error"]
    assert show(tmp_path / "out", 0).is_image


def test_dry_run_estimates_and_writes_nothing(sentiment, reviews, tmp_path):
    done = whence.run(reviews, model=sentiment, text="review", out=tmp_path / "out", dry_run=True)
    assert done.estimate.rows == 60
    assert done.estimate.seconds > 0
    assert done.estimate.bytes > 60
    assert done.estimate.plan.batch_tokens >= 512
    assert not (tmp_path / "out").exists()


def test_show_and_summary(sentiment, reviews, tmp_path):
    out = tmp_path / "out"
    whence.run(reviews, model=sentiment, text="review", out=out, **SMALL)
    text = records(out)[17]["text"]
    shown, exp = show(out, 17), whence.explain(sentiment, text)
    assert (shown.tokens, shown.offsets, shown.target) == (exp.tokens, exp.offsets, exp.target)
    assert [w.text for w in shown.words()] == [w.text for w in exp.words()]
    with pytest.raises(InputError, match="could not be explained"):
        show(out, 7)
    with pytest.raises(InputError, match="rows 0 to 59"):
        show(out, 60)
    seen = summary(out, min_count=2)
    assert (seen.rows, seen.failed, sum(seen.errors.values())) == (60, 2, 2)
    assert seen.failures[0][0] == 7
    assert "gorgeous" in [w.word for w in seen.by_class["positive"][:5]]
    assert seen.conserved["0.001"] == 1.0
    assert seen.slowest


def test_summary_is_the_mean_over_the_rows(sentiment, tmp_path):
    out = tmp_path / "out"
    whence.run(["a gem", "gem", "Gem!"], model=sentiment, out=out, **SMALL)
    by_hand = [
        sum(w.score for w in e.words() if w.text.lower().strip("!") == "gem")
        for e in whence.explain(sentiment, ["a gem", "gem", "Gem!"], progress=False)
    ]
    (found,) = [w for w in summary(out, min_count=1).words if w.word == "gem"]
    # Sums in another order, as above.
    assert (found.times, found.mean) == (3, pytest.approx(np.mean(np.abs(by_hand)), abs=1e-4))


def test_the_folder_is_ours_or_empty(sentiment, reviews, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="holds no run of whence"):
        whence.run(reviews, model=sentiment, text="review", out=tmp_path / "out")


def test_one_run_at_a_time(sentiment, tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match="another run is writing"):
        whence.run(["a gem"], model=sentiment, out=tmp_path, **SMALL)


def test_a_folder_that_can_t_be_locked_says_why(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    with pytest.raises(InputError, match=r"can't lock .*_lock': No locks available\. Choose"), locked(tmp_path):
        pass


def test_what_a_model_is_let_write_is_checked(tmp_path):
    model = whence.load((small.llama(), small.bytelevel()))
    for wrong in (0, True, "long"):
        with pytest.raises(whence.WhenceError, match="generate="):
            whence.run(["the plot"], model=model, out=tmp_path / "out", generate=wrong)
    done = whence.run(["the plot"], model=model, out=tmp_path / "out", generate={"max_new_tokens": 2})
    assert (done.rows, done.failed) == (1, 0)


def test_errors_name_the_columns_and_the_choices(sentiment, reviews, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="Its columns: review, name, label"):
        whence.run(reviews, model=sentiment, out=tmp_path / "out")
    with pytest.raises(UnknownNameError, match="Did you mean 'ray'"):
        whence.run(reviews, model=sentiment, text="review", out=tmp_path / "out", executor="rai")
    with pytest.raises(InputError, match="float16 or float32"):
        whence.run(reviews, model=sentiment, text="review", out=tmp_path / "out", scores="int8")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whence-xai\[data\]'"):
        whence.run(reviews, model=sentiment, text="review", out=tmp_path / "out")


def test_a_torn_journal_line_and_a_cut_file_are_done_again(sentiment, reviews, tmp_path):
    out = tmp_path / "out"
    whence.run(reviews, model=sentiment, text="review", out=out, **SMALL)
    before = files(out)
    (out / "shard-000002.parquet").write_bytes(before["shard-000002.parquet"][:100])
    journal = out / "_journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-30])
    assert sorted(Journal(out).done) == [0, 1]
    manifest = Manifest.read(out)
    replace(manifest, complete=False, rows=None).write(out)
    assert whence.run(reviews, model=sentiment, text="review", out=out).fresh == 28
    assert files(out) == before


def test_several_processes_write_the_same(reviews, tmp_path):
    whence.run(reviews, model="sentiment", text="review", out=tmp_path / "one", **SMALL)
    whence.run(reviews, model="sentiment", text="review", out=tmp_path / "two", workers=2, **SMALL)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_the_command(reviews, tmp_path):
    invoke, out = CliRunner().invoke, str(tmp_path / "out")
    arguments = ["run", str(reviews), "--text", "review", "--out", out, "--limit", "20", "--rows-per-shard", "8"]
    planned = invoke(app, [*arguments, "--dry-run", "--batch-tokens", "64"])
    assert "rows      20" in planned.stdout
    done = invoke(app, [*arguments, "--batch-tokens", "64", "--option", "receipt=short"])
    assert done.exit_code == 0, done.output
    assert "20 rows in 3 shards" in done.stdout
    assert "target:" in invoke(app, ["show", out, "--row", "3"]).stdout
    assert "failed rows" in invoke(app, ["summary", out]).stdout


def test_half_characters_deep_values_and_commands_to_the_terminal(sentiment, tmp_path):
    """Rows that can't be encoded or written fail by themselves; what the data holds does not move the cursor."""
    data, out = tmp_path / "x.jsonl", tmp_path / "out"
    deep, clear = "[" * 100_000 + "]" * 100_000, "\x1b[2J\x07"
    lines = [json.dumps({"text": f"a gem{clear}", "id": "a"}), '{"text": "half \\ud83d", "id": "b\\ud800"}',
             f'{{"text": {deep}, "id": "c"}}', json.dumps({"text": "", "id": f"d{clear}"})]  # fmt: skip
    data.write_text("\n".join(lines))
    done = whence.run(data, model=sentiment, id_column="id", out=out, **SMALL)
    assert (done.rows, done.failed) == (4, 3)
    found = records(out)
    assert [r["id"] for r in found] == ["a", "b\\ud800", "2", f"d{clear}"]
    assert "lone surrogate" in found[1]["error"]
    assert "recursion" in found[2]["error"]
    assert clear in found[0]["text"]
    said = str(summary(out))
    assert "lone surrogate" in said
    assert not {c for c in said if ord(c) < 32} - {"\n"}
    assert whence.run(data, model=sentiment, id_column="id", out=out).fresh == 0


def test_standard_input_and_going_on_with_it(reviews, tmp_path):
    out, content = str(tmp_path / "out"), reviews.read_text()
    arguments = ["run", "-", "--text", "review", "--out", out, "--rows-per-shard", "16", "--batch-tokens", "64"]
    done = CliRunner().invoke(app, arguments, input=content)
    assert done.exit_code == 0, done.output
    assert "60 rows in 4 shards" in done.stdout
    (tmp_path / "out" / "shard-000003.parquet").unlink()
    assert "(12 now" in CliRunner().invoke(app, arguments, input=content).stdout
    (tmp_path / "out" / "shard-000003.parquet").unlink()
    other = CliRunner().invoke(app, arguments, input=content.replace("gem", "bore", 1))
    assert isinstance(other.exception, InputError)
    assert "rows 0 to 15 are not those of the earlier run" in str(other.exception)


@pytest.mark.parametrize(
    "use", [whence.summary, whence.verify, lambda out: whence.run(["a"], model="sentiment", out=out)]
)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_elsewhere_is_refused_with_what_to_type(use, kind):
    with pytest.raises(InputError, match="aws s3 sync FOLDER s3://bucket/out"):
        use(kind("s3://bucket/out"))


def test_what_comes_before_the_first_row_is_said(tmp_path, capsys):
    options = {"model": "sentiment", "method": "gi"}
    whence.run(["a gem", "dull"], out=tmp_path / "loud", progress=True, **options)
    said = [line.split("s  ", 1)[1] for line in capsys.readouterr().err.splitlines() if "s  " in line]
    assert [line.split()[0] for line in said] == ["opening", "loading", "digests", "measuring", "explaining"]
    assert said[1] == "loading sentiment"
    whence.run(["a gem", "dull"], out=tmp_path / "quiet", progress=False, **options)
    assert not capsys.readouterr().err


def test_rows_are_counted_batch_by_batch_and_bad_ones_too(sentiment, reviews, tmp_path):
    told = []
    done = whence.run(
        reviews, model=sentiment, text="review", out=tmp_path / "out", progress=lambda *now: told.append(now), **SMALL
    )
    counts = [count for count, _, _ in told]
    assert counts == sorted(counts)
    assert counts[-1] == done.fresh == 60
    assert counts[0] < 16  # a batch, and not a window or a shard
    assert {total for _, total, _ in told} == {60}


def test_a_window_is_written_while_the_next_one_is_explained(sentiment, tmp_path, monkeypatch):
    second, windows = threading.Event(), []
    write, explained = ShardWriter.write, WindowExplainer.explained

    def counted(self, rows, *rest):
        windows.append(len(rows))
        if len(windows) == 2:
            second.set()
        return explained(self, rows, *rest)

    def waiting(self, results):
        assert second.wait(60), "the next window waits for the file"
        write(self, results)

    monkeypatch.setattr(WindowExplainer, "explained", counted)
    monkeypatch.setattr(ShardWriter, "write", waiting)
    texts = [f"a good film {n}" for n in range(150)]
    done = whence.run(texts, model=sentiment, out=tmp_path / "out", batch_tokens=16, rows_per_shard=150)
    assert windows == [64, 64, 22]
    assert done.rows == 150


def test_a_command_whose_every_row_failed_does_not_exit_with_0(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a gem", "label": "pos"}\n{"text": "dull", "label": "neg"}\n')
    told = ["run", str(rows), "--target-column", "label", "--out"]
    failed = CliRunner().invoke(app, [*told, str(tmp_path / "all")])
    assert failed.exit_code == 1
    assert f"whence summary {tmp_path / 'all'}  says why rows failed" in failed.stdout
    rows.write_text('{"text": "a gem", "label": "positive"}\n{"text": "dull", "label": "neg"}\n')
    assert CliRunner().invoke(app, [*told, str(tmp_path / "one")]).exit_code == 0
