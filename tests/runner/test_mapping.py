"""Batches explained by a function that other schedulers call: the same rows as `run`, in the form they came in."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import whence
from tests import small
from tests.runner.conftest import records, sentences
from whence.errors import InputError
from whence.runner import mapping

TEXTS = sentences(24)
TABLE = pa.table({"review": TEXTS, "n": range(24), "name": [f"r{n}" for n in range(24)]})
OPTIONS = {"method": "gi", "text": "review", "id_column": "name", "batch_tokens": 256}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """What a run writes, without the number of the row."""
    out = tmp_path_factory.mktemp("mapping") / "out"
    whence.run(TABLE, model="sentiment", out=out, rows_per_shard=64, progress=False, **OPTIONS)
    return [{k: v for k, v in row.items() if k != "row"} for row in records(out)]


def test_tables_are_explained_as_by_a_run(wanted):
    explain = pickle.loads(pickle.dumps(whence.explainer("sentiment", **OPTIONS)))
    assert explain(TABLE).to_pylist() == wanted
    assert explain(TABLE).schema == explain.schema
    assert explain(TABLE.to_batches()[0]).to_pylist() == wanted
    assert [row for part in explain(iter(TABLE.to_batches(24))) for row in part.to_pylist()] == wanted
    assert any(row["error"] for row in wanted)


def test_frames_keep_their_index_and_columns(wanted):
    frame = TABLE.to_pandas()
    frame.index = range(100, 124)
    found = whence.explainer("sentiment", keep=["n"], **OPTIONS)(frame)
    assert list(found.index) == list(range(100, 124))
    assert list(found.columns) == ["n", *wanted[0]]
    assert list(found["n"]) == list(range(24))
    np.testing.assert_array_equal(found["scores"].iloc[0], np.float32(wanted[0]["scores"]))


def test_columns_in_a_dict(wanted):
    found = whence.explainer("sentiment", **OPTIONS)({"review": np.array(TEXTS), "name": TABLE["name"].to_pylist()})
    assert list(found["prediction"]) == [row["prediction"] for row in wanted]


def test_a_batch_without_rows_has_the_columns_and_loads_nothing(monkeypatch):
    monkeypatch.setattr(mapping, "load", None)
    explain = whence.explainer("no such model", keep=["n"], **OPTIONS)
    assert explain(TABLE.slice(0, 0)).schema == pa.schema([TABLE.schema.field("n"), *explain.schema])
    assert explain(TABLE.slice(0, 0)).schema == explain.schema_of(TABLE.schema)
    assert list(explain.empty()) == ["n", *explain.schema.names]


def test_without_an_id_column_there_is_no_id():
    explain = whence.explainer("sentiment", method="gi")
    assert explain(pa.table({"text": ["a gem", "dull"]}))["id"].to_pylist() == [None, None]


def test_a_model_is_loaded_once_by_name(monkeypatch):
    loads = []
    real = mapping.load
    monkeypatch.setattr(mapping, "_loaded", {})
    monkeypatch.setattr(mapping, "load", lambda *a, **k: loads.append(a) or real(*a, **k))
    for _ in range(2):
        pickle.loads(pickle.dumps(whence.explainer("sentiment", **OPTIONS)))(TABLE.slice(0, 2))
    whence.explainer("sentiment", model_options={"dtype": "float64"}, **OPTIONS)(TABLE.slice(0, 2))
    assert len(loads) == 2


def test_a_model_in_memory_goes_with_it():
    model = whence.load((small.classifier(), small.wordpiece()))
    explain = pickle.loads(pickle.dumps(whence.explainer(model, **OPTIONS)))
    assert explain(TABLE.slice(0, 2)).num_rows == 2
    with pytest.raises(InputError, match="this one is in memory"):
        whence.explainer(model, model_options={"dtype": "float64"})


@pytest.mark.parametrize(
    ("batch", "options", "says"),
    [
        (TABLE, {"text": "body"}, "no column 'body' in the batch. Its columns: review, n, name"),
        (TABLE, {"text": "review", "keep": ["nn"]}, "no column 'nn'"),
        (TABLE.append_column("id", TABLE["n"]), {"text": "review", "keep": ["id"]}, "rename it first"),
        (["a gem"], {}, "can't explain a list"),
    ],
)
def test_what_does_not_fit_is_said(batch, options, says):
    with pytest.raises(InputError, match=says):
        whence.explainer("sentiment", **options)(batch)


def test_ray_data(wanted):
    ray = pytest.importorskip("ray.data", reason="Ray Data: pip install 'whence-xai[ray]'")
    code = f"""
import ray, ray.data, pyarrow as pa, pickle, sys, whence
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=10**8)
ray.data.DataContext.get_current().enable_progress_bars = False
data = ray.data.from_arrow(pickle.load(sys.stdin.buffer)).repartition(2)
explain = whence.explainer("sentiment", **{OPTIONS!r})
found = data.map_batches(explain, batch_format="pyarrow", batch_size=8, concurrency=1)
print("rows:" + repr(sorted((r["id"], r["error"], r["prediction"]) for r in found.take_all())))
ray.shutdown()
"""
    assert ray
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    said = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(TABLE), capture_output=True, env=environment, timeout=240
    )
    assert said.returncode == 0, said.stderr.decode()[-2000:]
    line = next(line for line in said.stdout.decode().splitlines() if line.startswith("rows:"))
    assert line == "rows:" + repr(sorted((r["id"], r["error"], r["prediction"]) for r in wanted))


def test_dask(wanted):
    dask = pytest.importorskip("dask.dataframe", reason="Dask: pip install 'dask[dataframe]'")
    explain = whence.explainer("sentiment", **OPTIONS)
    frame = dask.from_pandas(TABLE.to_pandas(), npartitions=3)
    found = frame.map_partitions(explain, meta=explain.empty()).compute(scheduler="synchronous")
    assert isinstance(found, pd.DataFrame)
    assert sorted(found["prediction"].dropna()) == sorted(r["prediction"] for r in wanted if r["prediction"])
