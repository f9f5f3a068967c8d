"""Files of other machines are read as files of this one: by way of fsspec, and from a server that speaks S3."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import whence
from whence.data import open_dataset
from whence.data.remote import RemoteFile, redacted
from whence.errors import InputError

TEXTS = ["a gem", "so, dull", "", "ünïcode ☃"] * 5
LINES = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
WANTED = [{"text": text} for text in TEXTS]


def _parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), buffer, row_group_size=3)
    return buffer.getvalue()


FILES = {
    "one/a.parquet": _parquet(),
    "one/b.parquet": _parquet(),
    "one/_state.json": b"{}",
    "two/a.jsonl": LINES,
    "two/b.jsonl.gz": gzip.compress(LINES),
    "three/picture.png": b"no picture",
    "three/more/picture.png": b"no picture",
}


@pytest.fixture(scope="module")
def memory():
    """Files in memory, which fsspec calls a file system."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for name, content in FILES.items():
        system.pipe(f"/bucket/{name}", content)
    yield "memory://bucket"
    system.store.clear()


@pytest.fixture(scope="module")
def s3():
    """A server on this machine that speaks S3."""
    moto = pytest.importorskip("moto.server", reason="the S3 server of the tests: pip install 'moto[s3]' flask-cors")
    import boto3

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    known = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**known, "AWS_ENDPOINT_URL": address}.items():
            patch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=address)
        client.create_bucket(Bucket="bucket")
        for name, content in FILES.items():
            client.put_object(Bucket="bucket", Key=name, Body=content)
        yield client
    server.stop()


@pytest.fixture(params=["memory", "s3"])
def root(request):
    return {"memory": "memory://bucket", "s3": "s3://bucket"}[request.param], request.getfixturevalue(request.param)


@pytest.mark.parametrize("name", ["one/a.parquet", "two/a.jsonl", "two/b.jsonl.gz"])
def test_a_file(root, name, tmp_path):
    there = open_dataset(f"{root[0]}/{name}")
    (tmp_path / os.path.basename(name)).write_bytes(FILES[name])
    here = open_dataset(str(tmp_path / os.path.basename(name)))
    assert list(there.records()) == WANTED
    assert list(there.records(7)) == WANTED[7:]
    assert (there.count(), there.columns()) == (len(TEXTS), ["text"])
    assert there.fingerprint() == here.fingerprint()


@pytest.mark.parametrize("name", ["one", "one/", "one/*.parquet", "one/[ab].parquet"])
def test_folders_and_patterns(root, name):
    data = open_dataset(f"{root[0]}/{name}")
    assert list(data.records()) == WANTED * 2
    assert [str(path) for path in data.paths] == [f"{root[0]}/one/{letter}.parquet" for letter in "ab"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("one/c.parquet", "no such file or folder: '.*/one/c.parquet'"),
        ("one/*.csv", "no file matches"),
        ("*/a.parquet", "only the last part of a name may be a pattern"),
        ("three", "holds no data files .* copy them here"),
        ("three/picture.png", "has a format that whence can't read"),
    ],
)
def test_what_can_not_be_read_is_said(root, name, says):
    with pytest.raises(InputError, match=says):
        open_dataset(f"{root[0]}/{name}")


def test_an_unknown_kind_of_address():
    with pytest.raises(InputError, match="can't be read: Protocol not known: nowhere"):
        open_dataset("nowhere://bucket/a.csv")


def test_what_must_be_installed_is_said_once(monkeypatch):
    def lacking(_):
        raise ImportError("install a library")

    monkeypatch.setattr("fsspec.core.url_to_fs", lacking)
    with pytest.raises(InputError) as error:
        open_dataset("somewhere://bucket/a.csv")
    assert str(error.value) == "'somewhere://bucket/a.csv' can't be read: install a library"


def test_a_run_reads_there_and_notices_a_change(s3, tmp_path):
    options = {"model": "sentiment", "method": "gi", "rows_per_shard": 16, "batch_tokens": 256, "progress": False}
    done = whence.run("s3://bucket/one", out=tmp_path / "there", **options)
    assert done.rows == 2 * len(TEXTS)
    (tmp_path / "one").mkdir()
    for letter in "ab":
        (tmp_path / "one" / f"{letter}.parquet").write_bytes(FILES["one/a.parquet"])
    whence.run(tmp_path / "one", out=tmp_path / "here", **options)
    shards = lambda out: [path.read_bytes() for path in sorted((tmp_path / out).glob("*.parquet"))]
    assert shards("there") == shards("here")
    shutil.copytree(tmp_path / "there", tmp_path / "again")
    s3.put_object(Bucket="bucket", Key="one/b.parquet", Body=FILES["one/a.parquet"].replace(b"dull", b"good"))
    with pytest.raises(InputError, match=r"other settings:\n  data.blocks.0 a.parquet byte 0"):
        whence.run("s3://bucket/one", out=tmp_path / "again", **options)


def test_secrets_of_an_address_are_not_shown():
    with pytest.raises(InputError) as error:
        open_dataset("s3://me:secret@bucket/a.csv?endpoint_override=127.0.0.1:1&scheme=http&signature=hidden")
    assert "'s3://bucket/a.csv'" in str(error.value)
    assert "secret" not in str(error.value)
    assert "hidden" not in str(error.value)


def test_a_signed_address_has_the_name_of_its_file():
    """What stands behind `?` is part of the path there, and of no name."""
    file = RemoteFile(None, "https://host/data/a.csv.gz?signature=abc", 3, "https://host/data/a.csv.gz")
    assert (file.name, file.stem, file.suffix) == ("a.csv.gz", "a.csv", ".gz")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("403, url=URL('https://host/a.csv?X-Signature=abc%20d')", "403, url=URL('https://host/a.csv')"),
        ("can't parse s3://key:sec@ret@bucket/a.csv?region=x: why?", "can't parse s3://bucket/a.csv why?"),
        ("no such file: 'a.csv'", "no such file: 'a.csv'"),
    ],
)
def test_errors_of_others_do_not_show_them_either(said, shown):
    assert redacted(OSError(said)) == shown
