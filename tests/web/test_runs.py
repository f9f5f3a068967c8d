"""Finished runs, page by page."""

from __future__ import annotations

import json
import shutil

import httpx
import numpy as np
import pytest

import whence
from tests.web.conftest import refused, run_alone
from whence.errors import InputError
from whence.results.explanation_files import to_wire
from whence.runner.show import show
from whence.web import runs as module
from whence.web.app import create_app
from whence.web.settings import Settings

TEXTS = [f"{word} film number {n}" for n, word in enumerate(["good", "bad", "witty", "dull"] * 6)]
TEXTS[5] = TEXTS[17] = ""  # rows that fail
TEXTS[7] = "a very " + "long " * 100 + "text"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "explained"
    data = folder.with_name("data.jsonl")
    data.write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS))
    whence.run(data, model="sentiment", out=folder, method="lrp", rows_per_shard=7, progress=False, workers=1)
    return folder


@pytest.fixture(scope="module")
def get(out, sentiment):
    app = create_app(Settings(models={"sentiment": sentiment}, runs=(out, out)))

    return lambda path, **query: run_alone(_asked(app, path, **query))


async def _asked(app, path, **query):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        return await client.get(path, params=query or None)


def test_list(get):
    first, second = get("/api/runs").json()
    assert first.pop("method") in ("lrp", "exact")
    assert first == {
        "name": "explained",
        "rows": 24,
        "failed": 2,
        "complete": True,
        "damaged": False,
        "labelled": False,
        "model": "sentiment",
    }
    assert second["name"] == "explained-2"
    assert get("/api/info").json()["runs"] == ["explained", "explained-2"]


@pytest.mark.parametrize(
    ("offset", "limit"), [(0, 5), (5, 5), (6, 2), (0, 24), (20, 50), (23, 1), (24, 5), (10**12, 1)]
)
def test_pages(get, offset, limit):
    answer = get("/api/runs/explained/rows", offset=offset, limit=limit).json()
    assert answer["total"] == 24
    assert [r["row"] for r in answer["rows"]] == list(range(24))[offset : offset + limit]
    for row in answer["rows"]:
        assert (row["error"] is not None) == (row["row"] in (5, 17))


def test_long_texts_are_cut_in_lists(get):
    row = get("/api/runs/explained/rows", offset=7, limit=1).json()["rows"][0]
    assert row["text"].startswith("a very long")
    assert len(row["text"]) == module.SHOWN


def test_filters(get):
    failed = get("/api/runs/explained/rows", failed=True).json()
    assert (failed["total"], [r["row"] for r in failed["rows"]]) == (2, [5, 17])
    assert get("/api/runs/explained/rows", failed=False).json()["total"] == 22
    found = get("/api/runs/explained/rows", query="WITTY", limit=2, offset=1).json()
    expected = [n for n, t in enumerate(TEXTS) if "witty" in t]
    assert found["total"] == len(expected)
    assert [r["row"] for r in found["rows"]] == expected[1:3]
    assert get("/api/runs/explained/rows", query="no such word").json() == {"total": 0, "rows": []}


@pytest.mark.parametrize(("order", "sign"), [("sure", -1), ("unsure", 1)])
def test_rows_by_how_sure_the_model_is_and_failed_ones_last(get, order, sign):
    rows = get("/api/runs/explained/rows", order=order).json()["rows"]
    shares = [sign * r["probability"] for r in rows[:-2]]
    assert shares == sorted(shares)
    assert [r["row"] for r in rows[-2:]] == [5, 17]


def test_rows_by_label_and_least_probability(get):
    rows = get("/api/runs/explained/rows").json()["rows"]
    said = get("/api/runs/explained/rows", label="negative", least=0.9).json()["rows"]
    wanted = [r for r in rows if r["prediction"] == "negative" and r["probability"] >= 0.9]
    assert said == wanted
    assert 0 < len(wanted) < 22


def test_a_probability_that_is_no_number_is_none_at_least_and_sorted_last():
    unknown = {"probability": float("nan"), "error": None}
    assert not module.Wanted(least=0.1).takes(unknown)
    assert module.Wanted(order="unsure").place(unknown) > module.Wanted(order="unsure").place({"probability": 1.0})


def test_a_page_reads_only_its_shard(get, monkeypatch):
    """A hundred million rows must not be read to show fifty."""
    read = []
    real = module._groups
    monkeypatch.setattr(module, "_groups", lambda j, report, c: read.append(report.shard) or real(j, report, c))
    get("/api/runs/explained/rows", offset=15, limit=3)
    assert read == [2]
    read.clear()
    get("/api/runs/explained/rows", failed=True)
    assert read == [0, 2]  # shards without a failed row are passed over


def test_row(get, out):
    wire = get("/api/runs/explained/rows/2").json()
    assert wire == json.loads(json.dumps(to_wire(show(out, 2))))
    assert wire["text"] == TEXTS[2]
    assert len(wire["scores"]) == len(wire["tokens"])
    assert np.isfinite(wire["scores"]).all()


def test_rows_that_are_not_there(get, out):
    assert "0 to 23" in refused(get("/api/runs/explained/rows/24"), 404, "unknown_row")
    failed = get("/api/runs/explained/rows/5")
    assert "empty" in refused(failed, 422, "row_failed")
    refused(get("/api/runs/explained/rows/-1"), 422, "invalid")
    refused(get("/api/runs/explained/rows/x"), 422, "invalid")
    refused(get("/api/runs/explained/rows", limit=1000), 422, "invalid")
    assert "'explained'" in refused(get("/api/runs/explaned/summary"), 404, "unknown_run")
    for name in ("..", "%2e%2e", "..%2fexplained", str(out).replace("/", "%2f")):
        response = get(f"/api/runs/{name}/rows")
        assert response.status_code == 404
        assert str(out.parent) not in response.text or "%2f" in name


def test_summary(get):
    found = get("/api/runs/explained/summary").json()
    assert (found["rows"], found["failed"], found["complete"]) == (24, 2, True)
    assert sum(found["predictions"].values()) == 22
    assert found["words"]
    assert {"word", "times", "mean"} == found["words"][0].keys()
    assert {f["row"] for f in found["failures"]} == {5, 17}
    assert "out" not in found
    assert get("/api/runs/explained/summary").json() == found


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        create_app(Settings(models=("sentiment",), runs=(tmp_path,)))


@pytest.mark.parametrize("name", ["shard-000001.parquet", "_manifest.json"])
@pytest.mark.parametrize("address", ["rows", "rows?query=film", "rows/8", "summary"])
def test_a_damaged_run_is_named_without_its_folder(name, address, get, out):
    path = out / name
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:-60] + whole[-60:].swapcase())  # of the same size
        response = get(f"/api/runs/explained-2/{address}")
    finally:
        path.write_bytes(whole)
    assert "'explained-2' is damaged" in refused(response, 500, "damaged_run")
    assert "whence verify" in response.json()["error"]["hint"]
    assert str(out.parent) not in response.text


def test_a_run_whose_manifest_is_gone_does_not_hide_the_others(sentiment, out, tmp_path):
    shutil.copytree(out, tmp_path / "other")
    app = create_app(Settings(models={"sentiment": sentiment}, runs=(out, tmp_path / "other")))
    (tmp_path / "other" / "_manifest.json").write_text("{")
    listed = run_alone(_asked(app, "/api/runs")).json()
    assert [(run["name"], run["rows"], run["damaged"]) for run in listed] == [
        ("explained", 24, False),
        ("other", 0, True),
    ]


def test_rows_of_a_shard_that_is_gone_are_not_unknown(get, out):
    path = out / "shard-000001.parquet"
    try:
        path.rename(out / "elsewhere")
        refused(get("/api/runs/explained/rows/8"), 500, "damaged_run")
        assert get("/api/runs/explained/rows/2").status_code == 200
        for address in ("rows", "rows?query=film", "summary"):  # without it, they would be of another run
            refused(get(f"/api/runs/explained/{address}"), 500, "damaged_run")
        assert [run["damaged"] for run in get("/api/runs").json()] == [True, True]
    finally:
        (out / "elsewhere").rename(path)
