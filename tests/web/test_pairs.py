"""POST /api/similarity and /api/similarity/figure: texts, pictures with captions, late interaction."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

import whence
from tests import small
from tests.web.conftest import picture, refused
from whence.models.sentences import SentenceEmbedder
from whence.results import Pair
from whence.viz import pair_page
from whence.viz.verdicts import verdict
from whence.web.app import create_app
from whence.web.catalogue import sides_of
from whence.web.settings import Limits, Settings

A, B = "a good movie", "the bad one"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A folder, as `whence serve FOLDER` is given one."""
    folder = tmp_path_factory.mktemp("models") / "clip"
    for part in small.clip():
        part.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def app(clip):
    return create_app(Settings(models=(str(clip),), limits=Limits(image_bytes=20_000)))


@pytest.fixture(scope="module")
def client(app):
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def embedders():
    made = create_app(
        Settings(models={"texts": whence.load((small.encoder(), small.wordpiece()), task="sentence-embedding")})
    )
    with TestClient(made, base_url="http://localhost", raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def photo():
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return Image.fromarray(pixels), base64.b64encode(file.getvalue()).decode()


def ask(client, model="clip", **body):
    return client.post("/api/similarity", json={"model": model} | body)


def test_a_folder_of_a_clip_says_that_either_side_may_be_an_image(client, embedders):
    (model,) = client.get("/api/info").json()["models"]
    assert (model["name"], model["kind"], model["sides"]) == ("clip", "pair", ["text", "image"])
    assert model["measures"] == ["cosine", "dot"]
    assert {"image", "pair"} <= model["examples"][0].keys()
    assert "lrp" in model["methods"]
    assert "gae" not in model["methods"]
    (texts,) = embedders.get("/api/info").json()["models"]
    assert (texts["sides"], texts["measures"]) == (["text"], ["cosine", "dot", "maxsim"])


def test_a_picture_and_its_caption_are_what_python_says(client, clip, photo):
    image, data = photo
    answer = ask(client, image=data, pair=A).json()
    wanted = whence.similarity(clip, image, A)
    assert answer["verdict"] == verdict(wanted)
    assert answer["html"] == pair_page.body_of(wanted)
    np.testing.assert_allclose(answer["data"]["matrix"], wanted.matrix, atol=1e-3 * np.abs(wanted.matrix).max())
    assert answer["data"]["left"]["columns"] == 2
    assert answer["data"]["right"]["columns"] is None
    assert answer["html"].count("<rect") == 4


@pytest.mark.parametrize("form", ["png", "data url"])
def test_every_two_sides(client, photo, form):
    _, data = photo
    data = data if form == "png" else f"data:image/png;base64,{data}"
    shapes = {}
    for name, body in {
        "image × image": {"image": data, "pair_image": data},
        "text × image": {"text": A, "pair_image": data},
        "text × text": {"text": A, "pair": B},
    }.items():
        answer = ask(client, **body)
        assert answer.status_code == 200, answer.text
        shapes[name] = np.shape(answer.json()["data"]["matrix"])
    assert shapes == {"image × image": (4, 4), "text × image": (5, 4), "text × text": (5, 7)}


def test_a_caption_that_is_the_path_of_a_picture_is_a_text(client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (30, 30), "red").save("x.png")
    for body in ({"text": "x.png", "pair": A}, {"text": A, "pair": "x.png"}):
        answer = ask(client, **body).json()
        assert answer["data"]["left"]["columns"] is None
        assert answer["data"]["right"]["columns"] is None


def test_what_is_missing_or_there_twice_is_refused(client, embedders, photo):
    _, data = photo
    assert "first of the two inputs is missing" in refused(ask(client, pair=A), 422, "wrong_input")
    assert "second of the two inputs is missing" in refused(ask(client, image=data), 422, "wrong_input")
    assert "there twice" in refused(ask(client, text=A, image=data, pair=B), 422, "wrong_input")
    assert "texts alone" in refused(ask(embedders, "texts", image=data, pair=B), 422, "wrong_input")
    refused(ask(client, text=" ", pair=B), 422, "empty")
    refused(ask(client, text=A, pair=B, method="gae"), 422, "not_explained")
    refused(ask(client, text=A, pair=B, method="/etc/passwd"), 422, "unknown_method")
    refused(ask(client, text=A, pair=B, measure="euclid"), 422, "invalid")


def test_pictures_have_the_limits_of_any_picture(client, photo):
    _, data = photo
    refused(ask(client, image="bm90IGEgcGljdHVyZQ==", pair=A), 422, "bad_image")
    refused(ask(client, image=data, pair_image="%%%"), 422, "bad_image")
    refused(ask(client, image=picture((7000, 6000)), pair=A), 413, "too_large")
    refused(ask(client, text=A, pair_image="A" * 30_000), 413, "too_large")
    refused(ask(client, text="good " * 100, pair=A), 413, "too_long")
    noise = np.random.default_rng(0).integers(0, 256, (70, 60, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "PNG")
    one = base64.b64encode(file.getvalue()).decode()
    assert ask(client, image=one, pair=A).status_code == 200
    assert "together" in refused(ask(client, image=one, pair_image=one), 413, "too_large")


def test_late_interaction(embedders):
    answer = ask(embedders, "texts", text=A, pair=B, measure="maxsim").json()
    assert answer["verdict"].startswith("Their maxsim similarity")
    assert len(answer["data"]["matches"]) == len(answer["data"]["left"]["names"])
    assert ask(embedders, "texts", text=A, pair=B).json()["data"]["matches"] == []


def test_late_interaction_of_one_embedding_is_refused(client):
    assert "for the whole input" in refused(ask(client, text=A, pair=B, measure="maxsim"), 422, "not_explained")


def test_a_model_that_compares_says_where_to_ask_it(client):
    for address in ("explain", "stream", "remove", "figure"):
        body = {"model": "clip", "text": A}
        body |= {"removed": [1]} if address == "remove" else {"format": "svg"} if address == "figure" else {}
        assert "/api/similarity" in refused(client.post(f"/api/{address}", json=body), 422, "wrong_input")


def test_attention_of_one_side(client, photo):
    _, data = photo
    seen = client.post("/api/attention", json={"model": "clip", "image": data}).json()
    assert seen["key_tokens"] == ["[CLS]", "patch 0,0", "patch 0,1", "patch 1,0", "patch 1,1"]
    read = client.post("/api/attention", json={"model": "clip", "text": A}).json()
    assert read["key_tokens"] == ["[CLS]", "a", "good", "movie", "[SEP]"]
    both = {"model": "clip", "text": A, "image": data}
    refused(client.post("/api/attention", json=both), 422, "wrong_input")


@pytest.mark.parametrize(
    ("form", "start"), [("html", b"<!doctype"), ("svg", b"<svg"), ("tex", b""), ("json", b"{"), ("npz", b"PK")]
)
def test_files(client, clip, photo, tmp_path, form, start):
    image, data = photo
    body = {"model": "clip", "image": data, "pair": A, "format": form}
    answer = client.post("/api/similarity/figure", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.content.lstrip()[:20].lower().startswith(start.lower())
    assert answer.headers["content-disposition"] == f'attachment; filename="whence.{form}"'
    if form in ("json", "npz"):
        path = tmp_path / f"pair.{form}"
        path.write_bytes(answer.content)
        np.testing.assert_array_equal(Pair.load(path).matrix, whence.similarity(clip, image, A).matrix)


def test_the_document_has_only_what_these_models_can(app):
    document = app.openapi()
    assert "/api/similarity" in document["paths"]
    assert "/api/explain" in document["paths"]  # with labels
    assert "/api/write" not in document["paths"]
    fields = document["components"]["schemas"]["SimilarityRequest"]["properties"]
    assert fields["pair_image"]["anyOf"][0]["maxLength"] == 20_000 * 4 // 3


def test_models_of_sentence_transformers_compare_too():
    class Made(SentenceEmbedder):
        def __init__(self):
            pass

    assert sides_of(Made()) == ("text",)
