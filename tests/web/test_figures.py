"""POST /api/figure and POST /api/attention."""

from __future__ import annotations

import base64
import csv
import io
import json

import numpy as np
import pytest
from starlette.testclient import TestClient

import whence
from tests.web.conftest import TEXT, picture, refused, sound
from whence import cancel
from whence.results import Comparison, Explanation
from whence.web import figures
from whence.web.app import create_app
from whence.web.settings import Limits, Settings

STARTS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!doctype html", "tex": b""}


def ask(client, form, **body):
    return client.post("/api/figure", json={"model": "sentiment", "text": TEXT, "format": form} | body)


@pytest.mark.parametrize("form", STARTS)
@pytest.mark.parametrize("several", [False, True])
def test_drawn(client, form, several):
    body = {"methods": ["lrp", "gi"], "targets": "all"} if several else {}
    response = ask(client, form, **body)
    assert response.status_code == 200, response.text
    start = response.content.lstrip()[:300].lower()
    assert STARTS[form].lower() in start
    assert response.headers["content-disposition"] == f'attachment; filename="whence.{form}"'
    kinds = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf", "html": "text/html; charset=utf-8"}
    assert response.headers["content-type"] == kinds.get(form, "application/x-tex")


def test_exact_files(client, sentiment, tmp_path):
    expected = whence.explain(sentiment, TEXT, "gi")
    for form in ("json", "npz"):
        path = tmp_path / f"x.{form}"
        path.write_bytes(ask(client, form, methods=["gi"]).content)
        np.testing.assert_array_equal(Explanation.load(path).scores, expected.scores)
    many = json.loads(ask(client, "json", methods=["gi", "lrp"]).content)
    assert [e["method"] for e in many["explanations"]] == ["gi", "lrp"]
    refused(ask(client, "npz", methods=["gi", "lrp"]), 422, "invalid")


def test_table(client, sentiment):
    text = 'a "gem", =1+1 <b>\nmovie'
    rows = list(csv.DictReader(io.StringIO(ask(client, "csv", text=text, methods=["gi", "lrp"]).text)))
    expected = whence.explain(sentiment, text, "gi")
    first = [r for r in rows if r["method"] == "gi"]
    assert [r["token"] for r in first] == list(expected.tokens)
    np.testing.assert_allclose([float(r["score"]) for r in first], expected.scores, rtol=1e-6)
    assert {r["target"] for r in rows} == {expected.target}


def test_a_long_token_is_not_repeated_on_each_of_its_lines(client):
    """Each line is a box, and each box had a tip with all of it: 100 kB made 111 MB."""
    response = ask(client, "svg", text="x" * 20_000, methods=["gi"])
    assert response.status_code == 200
    assert len(response.content) < 200_000


def test_a_file_that_would_be_very_large_is_not_sent(sentiment):
    app = create_app(Settings(models={"sentiment": sentiment}, limits=Limits(answer_bytes=1000)))
    with TestClient(app, base_url="http://localhost") as client:
        assert "the limit is 1,000" in refused(ask(client, "svg"), 413, "too_large")


def test_images_draw(client):
    body = {"model": "digits", "image": picture((28, 28), colour=99), "methods": ["gi"]}
    for form in ("svg", "png", "csv"):
        assert client.post("/api/figure", json=body | {"format": form}).status_code == 200
    rows = client.post("/api/figure", json=body | {"format": "csv"}).text.splitlines()
    assert len(rows) == 1 + 49
    assert "patch 0,0" in rows[1]


def test_downloads_run_nothing(client):
    text = "<script>alert(1)</script> <img src=x onerror=alert(1)>"
    for form in ("svg", "html"):
        response = ask(client, form, text=text)
        assert "<script>alert" not in response.text
        assert "<img src=x" not in response.text
        assert "attachment" in response.headers["content-disposition"]


def test_unknown_format(client):
    refused(ask(client, "exe"), 422, "invalid")


# -- attention ---------------------------------------------------------------------------------------------------


def test_attention_is_what_the_library_says(client, sentiment):
    maps = whence.attention(sentiment, TEXT)
    for layer in range(len(maps)):
        answer = client.post("/api/attention", json={"model": "sentiment", "text": TEXT, "layer": layer}).json()
        assert answer["layers"] == len(maps)
        assert answer["layer"] == layer
        assert answer["query_tokens"] == answer["key_tokens"] == list(maps.tokens)
        shape = (answer["heads"], len(answer["query_tokens"]), len(answer["key_tokens"]))
        raw = np.frombuffer(base64.b64decode(answer["maps"]), dtype=np.uint8).reshape(shape)
        maxima = np.array(answer["maxima"])[:, None, None]
        np.testing.assert_allclose(raw / 255 * maxima, maps[layer], atol=maxima.max() / 510 + 1e-6)  # half a step
        assert (raw.max((1, 2)) == 255).all()


def test_attention_of_an_image(client):
    answer = client.post("/api/attention", json={"model": "digits", "image": picture(colour=99)}).json()
    count = len(answer["key_tokens"])
    assert len(base64.b64decode(answer["maps"])) == answer["heads"] * len(answer["query_tokens"]) * count
    assert answer["key_tokens"][-1] == "patch 6,6"


def test_attention_of_a_layer_that_is_not_there(client):
    body = {"model": "sentiment", "text": TEXT, "layer": 99}
    assert "0 to 2" in refused(client.post("/api/attention", json=body), 422, "unknown_layer")
    refused(client.post("/api/attention", json=body | {"layer": -1}), 422, "invalid")
    refused(client.post("/api/attention", json={"model": "nope", "text": TEXT}), 404, "unknown_model")


BOTH = {
    "tones": lambda: {"sound": sound()},
    "viewer": lambda: {"image": picture(mode="RGB"), "text": "what is this?"},
}


@pytest.mark.parametrize("form", STARTS)
@pytest.mark.parametrize("model", BOTH)
def test_sounds_and_images_with_text_are_drawn(client, model, form):
    body = {"model": model, "methods": ["lrp", "gi"], "format": form} | BOTH[model]()
    response = client.post("/api/figure", json=body)
    assert response.status_code == 200, response.text
    assert STARTS[form].lower() in response.content.lstrip()[:300].lower()


@pytest.mark.parametrize("model", BOTH)
def test_exact_files_of_sounds_and_images_with_text(client, model, tmp_path):
    body = {"model": model, "methods": ["gi"]} | BOTH[model]()
    wire = client.post("/api/explain", json=body).json()["explanations"][0]
    for form in ("json", "npz"):
        path = tmp_path / f"x.{form}"
        path.write_bytes(client.post("/api/figure", json=body | {"format": form}).content)
        again = Explanation.load(path)
        np.testing.assert_allclose(again.scores, wire["scores"])
        assert [list(part.shape) for part in again.parts] == [part["shape"] for part in wire["parts"]]
    rows = list(csv.DictReader(io.StringIO(client.post("/api/figure", json=body | {"format": "csv"}).text)))
    assert [row["token"] for row in rows] == wire["tokens"]


def test_attention_names_what_each_layer_is_over(client):
    """A part that sees has patches, the part that reads has tokens."""
    body = {"model": "viewer"} | BOTH["viewer"]()
    first = client.post("/api/attention", json=body).json()
    assert first["key_tokens"] == ["[CLS]", *(f"patch {r},{c}" for r in range(2) for c in range(2))]
    last = client.post("/api/attention", json=body | {"layer": first["layers"] - 1}).json()
    assert "".join(last["key_tokens"]).replace("Ġ", " ").count("what is this?") == 1
    heard = client.post("/api/attention", json={"model": "tones"} | BOTH["tones"]()).json()
    assert heard["key_tokens"][0].startswith("0.00–")


class Soon(cancel.Token):
    """Cancelled once it has been asked a few times: in the middle of whatever asks."""

    def __init__(self, times):
        self.left = times

    @property
    def reason(self):
        self.left -= 1
        return None if self.left > 0 else "the client left"


@pytest.mark.parametrize("form", ["svg", "png", "pdf", "tex", "html", "csv"])
def test_drawing_stops_when_the_client_leaves(sentiment, form):
    many = Comparison(tuple(whence.explain(sentiment, ["a gem of a film, or a dull one"] * 9, "gi", progress=False)))
    soon = Soon(8)
    with pytest.raises(cancel.Cancelled), cancel.scope(soon):
        figures._content(many, form)
